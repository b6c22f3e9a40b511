#include "reader/written.h"

#include <array>

namespace paddock::reader {
namespace {

constexpr std::string_view kSpaces[] = {" ", "\xC2\xA0", "\xE2\x80\xAF"};  // the no-break and the narrow no-break one
constexpr std::string_view kQuotes[] = {"'", "\xE2\x80\x99"};
constexpr std::string_view kMinus = "\xE2\x88\x92";  // U+2212
constexpr int64_t kDay = 86400;

// What is left of a text, from its front.
class Text {
 public:
  explicit Text(std::string_view text) : rest_(text) {}

  bool empty() const { return rest_.empty(); }
  char front() const { return rest_.empty() ? '\0' : rest_.front(); }
  char take() {
    char c = front();
    if (!rest_.empty()) rest_.remove_prefix(1);
    return c;
  }
  bool skip(std::string_view piece) {
    if (piece.empty() || !rest_.starts_with(piece)) return false;
    rest_.remove_prefix(piece.size());
    return true;
  }
  template <size_t N>
  bool skip_any(const std::string_view (&pieces)[N]) {
    for (std::string_view piece : pieces)
      if (skip(piece)) return true;
    return false;
  }
  void skip_spaces() {
    while (skip_any(kSpaces)) {
    }
  }
  bool digit() const { return front() >= '0' && front() <= '9'; }
  // Up to `most` digits as a number; how many there were.
  int digits(int most, int& value) {
    int count = 0;
    for (value = 0; count < most && digit(); ++count) value = value * 10 + (take() - '0');
    return count;
  }
  bool two(int& value) { return digits(2, value) == 2; }
  void append_digits(std::string& out) {
    while (digit()) out += take();
  }

 private:
  std::string_view rest_;
};

// '+' or '-' where a sign stands, else 0.
char take_sign(Text& text) {
  if (text.skip("+")) return '+';
  return text.skip("-") || text.skip(kMinus) ? '-' : '\0';
}

bool skip_thousands(Text& text, std::string_view mark) {
  if (mark == " ") return text.skip_any(kSpaces);
  if (mark == "'") return text.skip_any(kQuotes);
  return text.skip(mark);
}

// The digits before the decimal point: in groups of three where they are in groups at all.
bool whole_part(Text& text, const Written& form, std::string& out) {
  size_t first = out.size();
  text.append_digits(out);
  size_t lead = out.size() - first;
  for (bool grouped = false;; grouped = true) {
    Text before = text;
    if (!skip_thousands(text, form.thousands) || !text.digit()) {
      text = before;  // the spaces behind a number are no marks
      return true;
    }
    if (!grouped && (lead == 0 || lead > 3 || out[first] == '0')) return false;
    for (int i = 0; i < 3; ++i) {
      if (!text.digit()) return false;
      out += text.take();
    }
    if (text.digit()) return false;
  }
}

// Digits, point, digits and exponent.
bool body(Text& text, const Written& form, std::string& out) {
  size_t first = out.size();
  if (!whole_part(text, form, out)) return false;
  size_t digits = out.size() - first;
  if (text.front() == form.decimal) {
    text.take();
    out += '.';
    size_t point = out.size();
    text.append_digits(out);
    digits += out.size() - point;
  }
  if (digits == 0) return false;
  if (text.front() != 'e' && text.front() != 'E') return true;
  out += text.take();
  if (text.front() == '+' || text.front() == '-') out += text.take();
  if (!text.digit()) return false;
  text.append_digits(out);
  return true;
}

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

bool on_calendar(int year, int month, int day) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (year < 1 || month < 1 || month > 12 || day < 1) return false;
  return day <= kDays[static_cast<size_t>(month - 1)] + (month == 2 && is_leap(year));
}

// Days since 1970-01-01 (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
int64_t days_of(int year, int month, int day) {
  int64_t y = year - (month <= 2);
  int64_t era = y / 400, in_era = y - era * 400;  // y >= 0
  int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

bool parse_day(Text& text, DateOrder order, int64_t& days) {
  int parts[3], widths[3];
  char mark = '\0';
  for (int i = 0; i < 3; ++i) {
    if (i == 1 && (text.front() == '-' || text.front() == '/' || text.front() == '.')) mark = text.front();
    if (i > 0 && (mark == '\0' || text.take() != mark)) return false;
    widths[i] = text.digits(4, parts[i]);
  }
  const bool ymd = order == DateOrder::kYmd, dmy = order == DateOrder::kDmy;
  const int y = ymd ? 0 : 2, m = dmy || ymd ? 1 : 0, d = ymd ? 2 : dmy ? 0 : 1;
  if (text.digit() || widths[y] != 4 || widths[m] < 1 || widths[m] > 2 || widths[d] < 1 || widths[d] > 2) return false;
  if (!on_calendar(parts[y], parts[m], parts[d])) return false;
  days = days_of(parts[y], parts[m], parts[d]);
  return true;
}

// "AM" or "PM" behind the time, which makes the hour one of 24; false for an hour that there is not.
bool half_day(Text& text, int& hour) {
  Text before = text;
  text.skip_spaces();
  char half = static_cast<char>(text.take() | 0x20), m = static_cast<char>(text.take() | 0x20);
  if ((half != 'a' && half != 'p') || m != 'm') {
    text = before;
    return hour < 24;
  }
  if (hour < 1 || hour > 12) return false;
  hour = hour % 12 + (half == 'p' ? 12 : 0);
  return true;
}

bool parse_zone(Text& text, int64_t& offset) {
  Text before = text;
  text.skip_spaces();
  if (text.skip("Z") || text.skip("UTC")) return true;
  char sign = text.front();
  if (sign != '+' && sign != '-') {
    text = before;
    return true;
  }
  int hours, minutes;
  text.take();
  if (!text.two(hours)) return false;
  text.skip(":");
  if (!text.two(minutes) || hours > 14 || minutes > 59) return false;
  offset = (hours * 60 + minutes) * 60;
  if (sign == '-') offset = -offset;
  return true;
}

bool parse_clock(Text& text, Moment& moment) {
  int hour, minute, second = 0;
  if (text.digits(2, hour) == 0 || !text.skip(":") || !text.two(minute)) return false;
  if (text.skip(":")) {
    if (!text.two(second)) return false;
    if (text.front() == '.' || text.front() == ',') {
      text.take();
      if (!text.digit()) return false;
      while (text.digit()) text.take();
    }
  }
  if (minute > 59 || second > 59 || !half_day(text, hour)) return false;
  moment.wall += (hour * 60 + minute) * 60 + second;
  return parse_zone(text, moment.offset);
}

}  // namespace

bool plain_number(std::string_view given, const Written& form, std::string& plain) {
  plain.clear();
  Text text(given);
  text.skip_spaces();
  char sign = take_sign(text);
  text.skip_spaces();
  bool named = text.skip(form.currency);
  if (named) {
    text.skip_spaces();
    if (sign == '\0') sign = take_sign(text);
  }
  if (sign == '-') plain += '-';
  if (!body(text, form, plain)) return false;
  text.skip_spaces();
  if (form.percent && !text.skip("%")) return false;
  if (!named) text.skip(form.currency);
  text.skip_spaces();
  return text.empty();
}

bool parse_date(std::string_view given, DateOrder order, Moment& moment) {
  Text text(given);
  int64_t days;
  text.skip_spaces();
  if (!parse_day(text, order, days)) return false;
  moment = {days * kDay, 0};
  Text before = text;
  text.skip_spaces();
  if (text.empty()) return true;
  text = before;
  if (!text.skip("T")) {
    if (!text.skip_any(kSpaces)) return false;
    text.skip_spaces();
  }
  if (!parse_clock(text, moment)) return false;
  text.skip_spaces();
  return text.empty();
}

}  // namespace paddock::reader
