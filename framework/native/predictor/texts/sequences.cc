// suites/nlp/sequences.py in C++.
#include "predictor/texts/sequences.h"

#include <algorithm>
#include <cstring>

namespace paddock::texts {
namespace {

using predictor::Json;
using Kind = Json::Kind;

// Problems whose examples are texts that are joined, and nothing else.
constexpr const char* kProblems[] = {"Classification", "Regression"};

// How much of two texts is kept.
std::pair<int64_t, int64_t> lengths(int64_t a, int64_t b, int64_t room, const std::string& truncation) {
  if (a + b <= room) return {a, b};
  if (truncation == "only_first") return {std::max<int64_t>(room - b, 0), std::min(b, room)};
  if (truncation == "only_second") return {std::min(a, room), std::max<int64_t>(room - a, 0)};
  const int64_t half = room / 2;
  if (truncation == "half") return {std::min(a, room - half), std::min(b, half)};
  if (truncation != "longest_first") not_done("the truncation " + truncation);
  if (std::min(a, b) <= half) return a < b ? std::pair(a, room - a) : std::pair(room - b, b);
  return {room - half, half};
}

Tensor tensor_of(const std::vector<int64_t>& values) {
  Tensor made(TensorType{Shape{static_cast<int64_t>(values.size())}, DType::kI64});
  if (!values.empty()) std::memcpy(made.raw(), values.data(), values.size() * sizeof(int64_t));
  return made;
}

}  // namespace

TextPlan text_plan(const Json& metadata) {
  const Json* processor = metadata.find("processor");
  const Json* tokenizer = processor ? processor->find("tokenizer") : nullptr;
  if (!tokenizer || !tokenizer->is(Kind::kObject))
    fail(ErrorKind::kNotSupported, "the export states no tokenizer (/processor/tokenizer)");
  const Json *transforms = processor->find("transforms"), *most = processor->find("max_length"),
             *type = processor->at("/problem/type"), *pair = processor->at("/problem/pair");
  const std::string problem = type && type->is(Kind::kString) ? std::string(type->string()) : "no name";
  if (std::find(std::begin(kProblems), std::end(kProblems), problem) == std::end(kProblems))
    fail(ErrorKind::kNotSupported, "the export's problem is ", problem.substr(0, 60),
         "; this library joins texts for Classification and Regression; tokens of a text are given by paddock_encode");
  if (processor->find("characters"))
    fail(ErrorKind::kNotSupported,
         "the export reads the characters of words, which this library does not spell; give "
         "its inputs yourself, `spelling` among them");
  if (transforms && transforms->is(Kind::kArray) && transforms->count)
    fail(ErrorKind::kNotSupported, "the export changes texts by transforms, which this library does not do");
  if (!most || !most->is(Kind::kInt) || most->whole < 8)
    fail(ErrorKind::kNotSupported, "max_length of the export is no number from 8 on");
  return {TextTokenizer::of_metadata(*tokenizer), most->whole, text_of(*processor, "truncation", "longest_first"),
          pair && pair->is(Kind::kBool) && pair->truth};
}

PreparedTexts::PreparedTexts(const TextPlan& plan, const std::vector<GivenText>& given) {
  const Around& around = plan.tokenizer->around();
  if (around.opening < 0 || around.closing < 0) not_done("a sequence without tokens before and behind a text");
  if (given.empty()) fail(ErrorKind::kAttribute, "there is no text");
  std::vector<int64_t> ids, offsets{0}, segments;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].is_pair != plan.pair)
      fail(ErrorKind::kAttribute, "text ", i, " is ", given[i].is_pair ? "a pair" : "single", "; the model takes ",
           plan.pair ? "pairs" : "single texts");
    auto first = plan.tokenizer->encode(given[i].first);
    auto second = plan.pair ? plan.tokenizer->encode(given[i].second) : std::vector<int64_t>();
    const int64_t room = plan.most - 2 - (plan.pair ? around.between : 0);
    const auto [a, b] = plan.pair ? lengths(static_cast<int64_t>(first.size()), static_cast<int64_t>(second.size()),
                                            room, plan.truncation)
                                  : std::pair(std::min(static_cast<int64_t>(first.size()), room), int64_t{0});
    ids.push_back(around.opening);
    ids.insert(ids.end(), first.begin(), first.begin() + a);
    ids.insert(ids.end(), static_cast<size_t>(plan.pair ? around.between : 1), around.closing);
    segments.resize(ids.size(), 0);
    if (plan.pair) {
      ids.insert(ids.end(), second.begin(), second.begin() + b);
      ids.push_back(around.closing);
      segments.resize(ids.size(), around.segments ? 1 : 0);
    }
    offsets.push_back(static_cast<int64_t>(ids.size()));
  }
  ids_ = tensor_of(ids);
  offsets_ = tensor_of(offsets);
  segments_ = tensor_of(segments);
}

const Tensor& PreparedTexts::input(const std::string& name) const {
  if (name == "ids") return ids_;
  if (name == "offsets") return offsets_;
  if (name == "segment_ids") return segments_;
  fail(ErrorKind::kNotSupported, "texts do not give the input '", name, "' of this model");
}

}  // namespace paddock::texts
