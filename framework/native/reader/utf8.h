// Whether bytes are UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace paddock::reader {

namespace detail {

// Bytes of the character at `p`, of which `left` bytes remain; 0 where there is none.
inline size_t utf8_length(const unsigned char* p, size_t left) {
  auto follows = [&](size_t i, unsigned char low = 0x80, unsigned char high = 0xBF) {
    return i < left && p[i] >= low && p[i] <= high;
  };
  unsigned char c = p[0];
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c <= 0xDF) return follows(1) ? 2 : 0;
  if (c >= 0xE0 && c <= 0xEF) return follows(1, c == 0xE0 ? 0xA0 : 0x80, c == 0xED ? 0x9F : 0xBF) && follows(2) ? 3 : 0;
  if (c >= 0xF0 && c <= 0xF4)
    return follows(1, c == 0xF0 ? 0x90 : 0x80, c == 0xF4 ? 0x8F : 0xBF) && follows(2) && follows(3) ? 4 : 0;
  return 0;
}

}  // namespace detail

inline bool is_ascii(std::string_view text) {
  constexpr uint64_t kHigh = 0x8080808080808080u;
  size_t i = 0;
  uint64_t seen = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    seen |= word;
  }
  for (; i < text.size(); ++i) seen |= static_cast<unsigned char>(text[i]);
  return (seen & kHigh) == 0;
}

inline bool is_utf8(std::string_view text) {
  auto* p = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t i = 0; i < text.size();) {
    size_t length = detail::utf8_length(p + i, text.size() - i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

}  // namespace paddock::reader
