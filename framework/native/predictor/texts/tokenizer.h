// Texts to the numbers of their tokens, as Python's tokenizers do.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "predictor/json.h"
#include "predictor/texts/parts.h"
#include "predictor/texts/trie.h"

namespace paddock::texts {

// A token that is found in a text before it is cut to words.
struct AddedToken {
  std::string content;
  int64_t number;
  bool left, right;  // it takes the spaces before it, behind it
  bool normalized;   // it is looked for in the text that the normalizer gives
};

// What stands around texts.
struct Around {
  int64_t opening = -1, closing = -1;  // -1: none
  int64_t between = 1;                 // closing tokens between two texts
  bool segments = true;                // whether the second text has a segment of its own
};

class TextTokenizer {
 public:
  // Of what an export's metadata say at /processor/tokenizer.
  static std::unique_ptr<TextTokenizer> of_metadata(const predictor::Json& metadata);
  // Of a tokenizer.json.
  static std::unique_ptr<TextTokenizer> of_json(const predictor::Json& json);

  // Without what stands around; the text is UTF-8.
  std::vector<int64_t> encode(std::string_view text) const;
  const Around& around() const { return around_; }
  // The number of a token; -1 where there is none.
  int64_t number(const std::string& token) const;

 private:
  void add(const predictor::Json* list);
  void add(AddedToken token);
  void find_around(const predictor::Json& json);
  void take_special_tokens_for_text();
  // Calls taken(piece, token): parts between added tokens, and those tokens, whose piece is empty.
  template <class F>
  void each_part(const std::string& text, const Trie& trie, F&& taken) const;

  Normalizer normalizer_;
  Splitter splitter_;
  std::unique_ptr<PieceModel> model_;
  std::vector<AddedToken> added_;
  Trie plain_, normalized_;  // of `added_`, by their numbers there
  Around around_;
  bool is_text_ = false;     // no text holds the tokens around it
  bool characters_ = false;  // every character is a token
};

}  // namespace paddock::texts
