// Numbers from text, without locale: decimal, with sign, point and exponent.
#pragma once
#include <charconv>
#include <cstdint>
#include <limits>
#include <string_view>

namespace paddock::reader {

// Digits only; false for anything else and for what 64 bits cannot hold.
inline bool parse_unsigned(std::string_view text, uint64_t& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

inline bool parse_integer(std::string_view text, int64_t& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

namespace detail {

// What a number outside of double's range is nearest to: zero by its exponent, or by its point, else infinity.
inline double out_of_range(std::string_view text) {
  bool negative = text[0] == '-';
  text.remove_prefix(negative);
  size_t exponent = text.find_first_of("eE");
  bool small = exponent == text.npos ? text[0] == '0' || text[0] == '.' : text[exponent + 1] == '-';
  double size = small ? 0.0 : std::numeric_limits<double>::infinity();
  return negative ? -size : size;
}

inline bool parse_any(std::string_view text, double& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    value = out_of_range(text);
  else if (error != std::errc())
    return false;
  return end == text.data() + text.size();
}

}  // namespace detail

// The double nearest to the text; true also for "inf" and "nan".
inline bool parse_double(std::string_view text, double& value) {
  static constexpr double kPowers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
  size_t i = 0, size = text.size();
  bool negative = size > 0 && text[0] == '-';
  i += negative;
  // At most 15 characters: the digits are a whole number below 2^53 and the power is exact, so the quotient is the
  // nearest double (Clinger, "How to read floating point numbers accurately", PLDI 1990).
  if (size - i == 0 || size - i > 15) return detail::parse_any(text, value);
  int64_t digits = 0;
  size_t point = size;
  for (; i < size; ++i) {
    auto digit = static_cast<unsigned char>(text[i] - '0');
    if (digit < 10)
      digits = digits * 10 + digit;
    else if (text[i] == '.' && point == size && size > 1u + negative)
      point = i;
    else
      return detail::parse_any(text, value);
  }
  double whole = static_cast<double>(digits);
  value = point == size ? whole : whole / kPowers[size - point - 1];
  if (negative) value = -value;
  return true;
}

// A whole number of 64 bits, also written as "12.0".
inline bool parse_whole(std::string_view text, int64_t& value) {
  if (parse_integer(text, value)) return true;
  double number;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!parse_double(text, number) || !(number >= -kExact && number <= kExact)) return false;
  value = static_cast<int64_t>(number);
  return static_cast<double>(value) == number;
}

}  // namespace paddock::reader
