// Base64 (RFC 4648) with its padding.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace paddock::predictor {

// False where the text is none.
inline bool from_base64(std::string_view text, std::string& bytes) {
  const auto value_of = [](char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
  };
  bytes.clear();
  if (text.size() % 4) return false;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const int value = value_of(c);
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((held += 6) >= 8) bytes.push_back(static_cast<char>(bits >> (held -= 8) & 0xFF));
  }
  return true;
}

}  // namespace paddock::predictor
