// The parts of a tokenizer, each as the library `tokenizers` has it: what changes a text, what cuts it to words, what
// cuts words to pieces. Made from the objects of a tokenizer.json; what is not done here is an Error of kind
// kNotSupported that names it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "predictor/json.h"
#include "predictor/texts/unicode.h"

namespace paddock::texts {

using Vocabulary = std::unordered_map<std::string, int64_t>;

// A text becomes another; null for none.
using Normalizer = std::function<Characters(Characters)>;
Normalizer normalizer_of(const predictor::Json* json);
// BERT's, also without a tokenizer.json.
Normalizer bert_normalizer(bool clean, bool chinese, bool strip_accents, bool lower_case);

// Precompiled.
Normalizer charsmap_normalizer(const predictor::Json& json);

// Words of a text. `is_start`: whether the text begins where the whole text does.
struct Words {
  std::vector<Characters> list;
  bool is_start;
};
using Splitter = std::function<void(Words&)>;
Splitter splitter_of(const predictor::Json* json);
Splitter bert_splitter();
Splitter byte_splitter(bool prefix_space);
// ERNIE's: runs of Latin letters and digits, and single characters.
Splitter ernie_splitter();

// Numbers of the pieces of a word.
class PieceModel {
 public:
  virtual ~PieceModel() = default;
  virtual void append(const Characters& word, std::vector<int64_t>& ids) const = 0;
  // The number of a token; -1 where there is none.
  int64_t number(const std::string& token) const {
    const auto found = vocabulary_.find(token);
    return found == vocabulary_.end() ? -1 : found->second;
  }
  size_t size() const { return vocabulary_.size(); }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit PieceModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Vocabulary vocabulary_;
};

std::unique_ptr<PieceModel> model_of(const predictor::Json& json);
std::unique_ptr<PieceModel> word_piece(Vocabulary vocabulary, std::string unknown, std::string prefix, size_t longest);
std::unique_ptr<PieceModel> whole_words(Vocabulary vocabulary, const std::string& unknown);
// `merges`: (first, second) in order.
std::unique_ptr<PieceModel> pair_encoding(Vocabulary vocabulary,
                                          const std::vector<std::pair<std::string, std::string>>& merges,
                                          const std::string& unknown, bool fuse_unknown, bool ignore_merges,
                                          bool byte_fallback);

// Members of a tokenizer's objects; Error of kind kNotSupported where one is of another kind.
[[noreturn]] void not_done(std::string_view what);
// Two tokens of one number: which of them a number means could not be told.
[[noreturn]] void same_number(std::string_view first, std::string_view second, int64_t number);
bool truth_of(const predictor::Json& of, const char* name, bool otherwise);
std::string text_of(const predictor::Json& of, const char* name, const char* otherwise = nullptr);

}  // namespace paddock::texts
