#include "reader/row_start.h"

#include <algorithm>

namespace paddock::reader {
namespace {

constexpr size_t kNone = std::string_view::npos;
constexpr size_t kOpen = kNone - 1;   // a quoted value goes on behind the text
constexpr int64_t kMostLines = 1000;  // of a value in quotes

// Behind the closing quote of the quoted value whose opening one is at `at`; kNone where it is not closed. A doubled
// quote is one of the value's.
size_t behind_quoted(std::string_view text, size_t at, char quote) {
  for (++at;; at += 2) {
    at = text.find(quote, at);
    if (at == kNone) return kNone;
    if (at + 1 == text.size() || text[at + 1] != quote) return at + 1;
  }
}

// Whether all lines of `text` look like rows, with as many delimiters, and are too many for that to be chance.
bool are_rows(const LogSchema& schema, std::string_view text) {
  const auto lines = std::count(text.begin(), text.end(), '\n');
  if (schema.columns < 2 || lines < (schema.columns == 2 ? 4 : 2)) return false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string_view line = text.substr(at, end - at);
    if (std::count(line.begin(), line.end(), schema.delimiter) != schema.columns - 1) return false;
    at = end + 1;
  }
  return true;
}

// Whether the value in quotes from `first` to `behind` was opened by a stray quote: it swallowed rows.
// `suites/engine/data/intake/tables.py` keeps the same rule.
bool is_stray(const LogSchema& schema, std::string_view text, size_t first, size_t behind) {
  const size_t line = text.find('\n', first);
  if (line >= behind) return false;
  const std::string_view lines = text.substr(line + 1, text.rfind('\n', behind - 1) - line);
  return std::count(lines.begin(), lines.end(), '\n') >= kMostLines || are_rows(schema, lines);
}

// The line end behind which no value is open, by RFC 4180: a value is quoted where it begins with a quote, and what
// stands behind its closing one, which is an error of the row, ends at the next delimiter. The text's size where it
// holds none; kOpen where a value is open there; kNone where a quote is a stray one.
size_t end_outside_quotes(const LogSchema& schema, std::string_view text, size_t at) {
  while (true) {
    size_t first = at;
    while (schema.strip && first < text.size() && text[first] == ' ') ++first;
    if (first < text.size() && text[first] == schema.quote) {
      at = behind_quoted(text, first, schema.quote);
      if (at == kNone) return kOpen;
      if (is_stray(schema, text, first, at)) return kNone;
    }
    while (at < text.size() && text[at] != schema.delimiter && text[at] != '\n') ++at;
    if (at == text.size()) return at;
    if (text[at] == '\n') return at;
    ++at;
  }
}

// As `row_end`, but kOpen where the text is too short to tell.
size_t told_end(const LogSchema& schema, std::string_view text, size_t begin) {
  const size_t line = std::min(text.find('\n', begin), text.size());
  if (!schema.newlines || text.substr(begin, line - begin).find(schema.quote) == kNone) return line;
  const size_t most = begin + static_cast<size_t>(schema.line_bytes) + 1;
  const size_t end = end_outside_quotes(schema, text.substr(0, most), begin);
  if (end == kOpen && text.size() < most) return kOpen;
  if (end == kOpen || end == kNone) return line;
  return end < std::min(most, text.size()) ? end : std::min(text.find('\n', end), text.size());
}

}  // namespace

size_t row_end(const LogSchema& schema, std::string_view text, size_t begin) {
  const size_t end = told_end(schema, text, begin);
  return end == kOpen ? std::min(text.find('\n', begin), text.size()) : end;
}

size_t row_start(const LogSchema& schema, std::string_view text, size_t begin, size_t at_least) {
  while (begin < at_least) {
    // Lines before the next quote are rows.
    const size_t quote = schema.newlines ? std::min(text.find(schema.quote, begin), text.size()) : text.size();
    if (at_least <= quote) {
      const size_t line = text.find('\n', std::max(begin, at_least - 1));
      if (line < quote) return line + 1;
    }
    const size_t before = text.substr(0, quote).rfind('\n');
    if (before != kNone && before >= begin) begin = before + 1;
    const size_t end = told_end(schema, text, begin);
    if (end == kOpen || end == text.size()) return begin;
    begin = end + 1;
  }
  return begin;
}

}  // namespace paddock::reader
