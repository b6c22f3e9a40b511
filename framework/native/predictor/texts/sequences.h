// Texts as the inputs of a model: `[CLS] first [SEP] second [SEP]`, cut to its length, all in one ragged batch.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "predictor/json.h"
#include "predictor/texts/tokenizer.h"

namespace paddock::texts {

// One text, or two that are shown together.
struct GivenText {
  std::string_view first, second;
  bool is_pair;
};

// How a model's texts are joined.
struct TextPlan {
  std::unique_ptr<const TextTokenizer> tokenizer;
  int64_t most;  // tokens of a sequence
  std::string truncation;
  bool pair;
};
// As the exporter's `metadata` say.
TextPlan text_plan(const predictor::Json& metadata);

class PreparedTexts {
 public:
  PreparedTexts(const TextPlan& plan, const std::vector<GivenText>& given);
  // The input of that name: ids [T], offsets [B + 1], segment_ids [T], all int64.
  const Tensor& input(const std::string& name) const;

 private:
  Tensor ids_, offsets_, segments_;
};

}  // namespace paddock::texts
