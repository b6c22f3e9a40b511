// paddock.h's texts and tokenizers: arguments are checked, exceptions become statuses.
#include <algorithm>
#include <stdexcept>

#include "predictor/prepared_handle.h"
#include "predictor/texts/tokenizer.h"

using paddock::c_api::bad_argument;
using paddock::c_api::expect;
using paddock::c_api::guarded;

struct paddock_tokenizer {
  std::shared_ptr<const paddock::texts::TextTokenizer> self;
};

namespace {

std::shared_ptr<const paddock::texts::TextPlan> plan_of(paddock_predictor* p) {
  const std::lock_guard<std::mutex> turn(p->texts->lock);
  auto& plan = p->texts->plan;
  if (!plan) plan = std::make_shared<const paddock::texts::TextPlan>(paddock::texts::text_plan(p->self->metadata()));
  return plan;
}

std::string_view given(const char* text, uint64_t bytes, const char* what) {
  if (bytes) expect(text, what);
  return {text, static_cast<size_t>(bytes)};
}

}  // namespace

extern "C" {

paddock_status paddock_prepare_texts(paddock_predictor* p, const paddock_text* texts, int32_t count,
                                     paddock_prepared** prepared) {
  return guarded([&] {
    expect(prepared, "prepared");
    *prepared = nullptr;
    expect(p, "predictor");
    std::vector<paddock::texts::GivenText> list;
    paddock::c_api::each_given(texts, count, "texts", [&](const paddock_text& text) {
      list.push_back({given(text.text, text.bytes, "text"), given(text.second, text.second_bytes, "second"),
                      text.second != nullptr});
    });
    const auto plan = plan_of(p);
    paddock::texts::PreparedTexts made(*plan, list);
    *prepared = new paddock_prepared{std::move(made), paddock::c_api::input_names(p)};
  });
}

paddock_status paddock_tokenizer_of(paddock_predictor* p, paddock_tokenizer** tokenizer) {
  return guarded([&] {
    expect(tokenizer, "tokenizer");
    *tokenizer = nullptr;
    expect(p, "predictor");
    const auto* found = p->self->metadata().at("/processor/tokenizer");
    if (!found)
      paddock::fail(paddock::ErrorKind::kNotSupported, "the export states no tokenizer (/processor/tokenizer)");
    *tokenizer = new paddock_tokenizer{paddock::texts::TextTokenizer::of_metadata(*found)};
  });
}

paddock_status paddock_tokenizer_load(const char* file, const paddock_options* options, paddock_tokenizer** tokenizer) {
  return guarded([&] {
    expect(tokenizer, "tokenizer");
    *tokenizer = nullptr;
    expect(file, "file");
    const paddock::predictor::Limits limits = options ? options->values.limits : paddock::predictor::Limits{};
    try {
      const paddock::predictor::JsonDocument document(
          paddock::predictor::read_file(file, "text_bytes", limits.text_bytes));
      *tokenizer = new paddock_tokenizer{paddock::texts::TextTokenizer::of_json(document.root())};
    } catch (const std::invalid_argument& e) {
      paddock::predictor::refuse(file, ": not valid JSON (", e.what(), ")");
    }
  });
}

void paddock_tokenizer_free(paddock_tokenizer* tokenizer) { delete tokenizer; }

paddock_status paddock_encode(const paddock_tokenizer* tokenizer, const char* text, uint64_t bytes, int64_t* ids,
                              uint64_t room, uint64_t* count) {
  return guarded([&] {
    expect(tokenizer, "tokenizer");
    expect(count, "count");
    if (room) expect(ids, "ids");
    const auto found = tokenizer->self->encode(given(text, bytes, "text"));
    *count = found.size();
    std::copy_n(found.begin(), std::min<size_t>(found.size(), static_cast<size_t>(room)), ids);
  });
}

int64_t paddock_token_number(const paddock_tokenizer* tokenizer, const char* token) {
  int64_t number = -1;
  guarded([&] {
    expect(tokenizer, "tokenizer");
    expect(token, "token");
    number = tokenizer->self->number(token);
  });
  return number;
}

}  // extern "C"
