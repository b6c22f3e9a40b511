// Words by their bytes, to find those that a text goes on with.
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/error.h"

namespace paddock::texts {

class Trie {
 public:
  void add(std::string_view word, int value) {
    uint32_t at = 0;
    for (const char c : word) {
      if (values_.size() > kMostNodes)
        fail(ErrorKind::kNotSupported, "tokenizer: its pieces have more than ", kMostNodes, " different beginnings");
      const auto [found, is_new] = next_.try_emplace(key(at, c), static_cast<uint32_t>(values_.size()));
      if (is_new) values_.push_back(-1);
      at = found->second;
    }
    values_[at] = value;
  }

  // Calls found(length, value) for each word that `text` begins with, the shortest first.
  template <class F>
  void each_prefix(std::string_view text, F&& found) const {
    uint32_t at = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto next = next_.find(key(at, text[i]));
      if (next == next_.end()) return;
      at = next->second;
      if (values_[at] >= 0) found(i + 1, values_[at]);
    }
  }

  bool empty() const { return next_.empty(); }

 private:
  static constexpr size_t kMostNodes = size_t{1} << 23;  // of some 50 bytes; a vocabulary of 250,000 has 1.5 million
  static uint64_t key(uint32_t at, char c) { return uint64_t{at} << 8 | static_cast<unsigned char>(c); }
  std::unordered_map<uint64_t, uint32_t> next_;
  std::vector<int> values_{-1};
};

}  // namespace paddock::texts
