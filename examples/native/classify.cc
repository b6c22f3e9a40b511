// Classifies texts with an exported classifier whose tokenizer is BERT's WordPiece:
//
//   ./classify exported/ "a fine film" "a waste of time"
//
// prints for each text its best class and the score of every class. All texts are one ragged batch, without padding.
#include <algorithm>
#include <cstdio>
#include <paddock.hpp>

#include "wordpiece.h"

namespace {

std::string text_at(paddock::Predictor& model, const std::string& pointer) {
  const auto found = model.metadata(pointer);
  if (!found) throw std::runtime_error("the export states no " + pointer);
  return *found;
}

std::vector<std::string> texts_at(paddock::Predictor& model, const std::string& pointer) {
  std::vector<std::string> list;
  while (const auto found = model.metadata(pointer + "/" + std::to_string(list.size()))) list.push_back(*found);
  return list;
}

void expect(paddock::Predictor& model, const std::string& pointer, const std::string& wanted) {
  const std::string found = text_at(model, pointer);
  if (found != wanted) throw std::runtime_error("takes exports with " + pointer + " " + wanted + ", not " + found);
}

struct Batch {
  std::vector<int64_t> ids, offsets{0}, segments;
};

Batch batch_of(paddock::Predictor& model, const std::vector<std::string>& texts) {
  const std::string processor = "/processor", tokenizer = processor + "/tokenizer";
  expect(model, "/suite", "nlp");
  expect(model, processor + "/problem/type", "Classification");
  expect(model, processor + "/transforms", "[]");
  expect(model, tokenizer + "/kind", "bert");
  if (model.metadata(processor + "/problem/pair").value_or("false") != "false")
    throw std::runtime_error("takes exports that classify single texts, not pairs");
  const example::WordPiece pieces(texts_at(model, tokenizer + "/vocabulary"),
                                  text_at(model, tokenizer + "/lower_case") == "true",
                                  text_at(model, tokenizer + "/chinese_characters") == "true");
  const size_t most = std::stoul(text_at(model, processor + "/max_length"));
  Batch batch;
  for (const auto& text : texts) {
    auto ids = pieces.encode(text);
    ids.resize(std::min(ids.size(), most - 2));  // [CLS] and [SEP] count too
    batch.ids.push_back(pieces.number("[CLS]"));
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
    batch.ids.push_back(pieces.number("[SEP]"));
    batch.offsets.push_back(static_cast<int64_t>(batch.ids.size()));
  }
  batch.segments.resize(batch.ids.size());  // zeros: all are first texts
  return batch;
}

std::vector<paddock::TensorView> inputs_of(const paddock::Predictor& model, const Batch& batch) {
  std::vector<paddock::TensorView> inputs;
  for (const auto& info : model.inputs()) {
    const auto& values = info.name == "ids" ? batch.ids : info.name == "offsets" ? batch.offsets : batch.segments;
    inputs.push_back(paddock::tensor(values, {static_cast<int64_t>(values.size())}));
  }
  return inputs;
}

void classify(const std::string& folder, const std::vector<std::string>& texts) {
  paddock::Predictor model(folder);
  const Batch batch = batch_of(model, texts);
  const auto classes = texts_at(model, "/processor/classes");
  const auto outputs = model.run(inputs_of(model, batch));
  const float* scores = outputs.at(0).data<float>();
  for (size_t i = 0; i < texts.size(); ++i, scores += classes.size()) {
    std::printf("%s\n",
                classes.at(static_cast<size_t>(std::max_element(scores, scores + classes.size()) - scores)).c_str());
    for (size_t k = 0; k < classes.size(); ++k) std::printf("  %s %.5f\n", classes[k].c_str(), double(scores[k]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: classify EXPORT TEXT...\n");
    return 2;
  }
  try {
    classify(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "classify: %s\n", e.what());
    return 1;
  }
  return 0;
}
