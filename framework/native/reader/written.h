// Numbers and dates as people write them: "1.234,50 €", "12 %", "3.4.2024 17:05". A column declares its form, so that
// nothing is guessed here. suites/engine/data/intake/written.py reads the same forms; a test compares them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace paddock::reader {

enum class DateOrder { kNone, kYmd, kDmy, kMdy };

// The form of a column.
struct Written {
  int column = -1;
  char decimal = '.';
  std::string thousands;  // "" for none; " " also stands for no-break spaces, "'" for the typographic one
  bool percent = false;   // each number ends with a percent sign, which is left out
  std::string currency;   // may stand before or behind a number
  DateOrder date = DateOrder::kNone;
};

// Seconds since 1970, as the clock showed them there, and how much of that is the zone's offset.
struct Moment {
  int64_t wall = 0, offset = 0;

  int64_t utc() const { return wall - offset; }
};

// The number in plain digits, for number.h; false for a text that is not of the form.
bool plain_number(std::string_view text, const Written& form, std::string& plain);

// False for a text that is no date of the form, or none of the calendar.
bool parse_date(std::string_view text, DateOrder order, Moment& moment);

}  // namespace paddock::reader
