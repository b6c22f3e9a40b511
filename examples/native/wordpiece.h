// BERT's WordPiece as Paddock and Hugging Face have it, for texts of ASCII, Chinese characters and common Chinese
// marks. Any other character is refused: its lower case and its accents would need Unicode's tables.
#pragma once
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace example {

class WordPiece {
 public:
  // `vocabulary`: tokens by number. `lower_case`, `chinese_characters`: as in BertTokenizer.
  WordPiece(const std::vector<std::string>& vocabulary, bool lower_case, bool chinese_characters)
      : lower_case_(lower_case), chinese_characters_(chinese_characters) {
    for (size_t i = 0; i < vocabulary.size(); ++i)
      if (!vocabulary[i].empty()) numbers_[vocabulary[i]] = static_cast<int64_t>(i);
    for (const char* token : {"[UNK]", "[CLS]", "[SEP]"})
      if (!numbers_.count(token)) throw std::runtime_error(std::string("the vocabulary lacks ") + token);
  }

  int64_t number(const std::string& token) const { return numbers_.at(token); }

  // The ids of a UTF-8 text, without [CLS] and [SEP]. A special token that stands in the text is itself.
  std::vector<int64_t> encode(std::string_view text) const {
    std::vector<int64_t> ids;
    std::string word;
    while (!text.empty()) {
      if (const auto special = special_at(text); !special.empty()) {
        finish(word, ids);
        ids.push_back(number(std::string(special)));
        text.remove_prefix(special.size());
        continue;
      }
      const size_t size = size_of(text);
      take(text.substr(0, size), word, ids);
      text.remove_prefix(size);
    }
    finish(word, ids);
    return ids;
  }

 private:
  static constexpr size_t kLongestWord = 100;  // characters; a longer one is unknown

  // Bytes of the first character.
  static size_t size_of(std::string_view text) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const size_t size = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    if ((byte >= 0x80 && byte < 0xC2) || byte > 0xF4 || size > text.size()) throw std::runtime_error("no UTF-8 text");
    for (size_t i = 1; i < size; ++i)
      if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) throw std::runtime_error("no UTF-8 text");
    return size;
  }

  static uint32_t code_of(std::string_view character) {
    if (character.size() == 1) return static_cast<unsigned char>(character[0]);
    uint32_t code = static_cast<unsigned char>(character[0]) & (0xFFu >> (character.size() + 1));
    for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (static_cast<unsigned char>(character[i]) & 0x3Fu);
    return code;
  }

  std::string_view special_at(std::string_view text) const {
    for (std::string_view token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
      if (text.substr(0, token.size()) == token && numbers_.count(std::string(token))) return token;
    return {};
  }

  static bool is_chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF);
  }

  static bool is_mark(uint32_t c) {
    if (c < 0x80) return c > 32 && c < 127 && !is_letter_or_digit(c);
    static const std::set<uint32_t> marks{0x2018, 0x2019, 0x201C, 0x201D, 0x2026, 0x3001, 0x3002, 0x300A,
                                          0x300B, 0xFF01, 0xFF08, 0xFF09, 0xFF0C, 0xFF1A, 0xFF1B, 0xFF1F};
    return marks.count(c) > 0;
  }

  static bool is_letter_or_digit(uint32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }

  void take(std::string_view character, std::string& word, std::vector<int64_t>& ids) const {
    const uint32_t c = code_of(character);
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      finish(word, ids);
    } else if (c < 32 || c == 127) {  // control characters are dropped
    } else if (is_mark(c) || (is_chinese(c) && chinese_characters_)) {
      finish(word, ids);
      word = character;
      finish(word, ids);
    } else if (is_letter_or_digit(c)) {
      word.push_back(static_cast<char>(lower_case_ && c >= 'A' && c <= 'Z' ? c + 32 : c));
    } else if (is_chinese(c)) {
      word += character;
    } else {
      throw std::runtime_error("the character '" + std::string(character) + "' is none that this example reads");
    }
  }

  // The word's longest pieces, one after the other; [UNK] where some part is no piece.
  void finish(std::string& word, std::vector<int64_t>& ids) const {
    if (word.empty()) return;
    std::vector<int64_t> pieces;
    size_t at = 0, characters = 0;
    for (const char byte : word) characters += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    while (at < word.size() && characters <= kLongestWord) {
      size_t end = word.size();
      auto found = numbers_.end();
      for (; end > at && found == numbers_.end(); --end)
        found = numbers_.find((at ? "##" : "") + word.substr(at, end - at));
      if (found == numbers_.end()) break;
      pieces.push_back(found->second);
      at = end + 1;
    }
    if (at < word.size()) pieces = {number("[UNK]")};
    ids.insert(ids.end(), pieces.begin(), pieces.end());
    word.clear();
  }

  bool lower_case_, chinese_characters_;
  std::unordered_map<std::string, int64_t> numbers_;
};

}  // namespace example
