#include "reader/row_start.h"

#include <algorithm>

namespace paddock::reader {
namespace {

constexpr size_t kNone = std::string_view::npos;

// Behind the closing quote of the quoted value whose opening one is at `at`; kNone where it is not closed. A doubled
// quote is one of the value's.
size_t behind_quoted(std::string_view text, size_t at, char quote) {
  for (++at;; at += 2) {
    at = text.find(quote, at);
    if (at == kNone) return kNone;
    if (at + 1 == text.size() || text[at + 1] != quote) return at + 1;
  }
}

// The line end behind which no value is open, by RFC 4180: a value is quoted where it begins with a quote, and what
// stands behind its closing one, which is an error of the row, ends at the next delimiter.
size_t end_outside_quotes(const LogSchema& schema, std::string_view text, size_t at) {
  while (true) {
    size_t first = at;
    while (schema.strip && first < text.size() && text[first] == ' ') ++first;
    if (first < text.size() && text[first] == schema.quote) {
      at = behind_quoted(text, first, schema.quote);
      if (at == kNone) return kNone;
    }
    while (at < text.size() && text[at] != schema.delimiter && text[at] != '\n') ++at;
    if (at == text.size()) return kNone;
    if (text[at] == '\n') return at;
    ++at;
  }
}

}  // namespace

size_t row_end(const LogSchema& schema, std::string_view text, size_t begin) {
  const size_t line = std::min(text.find('\n', begin), text.size());
  if (!schema.newlines || text.substr(begin, line - begin).find(schema.quote) == kNone) return line;
  const auto most = static_cast<size_t>(schema.line_bytes);
  const size_t end = end_outside_quotes(schema, text.substr(0, std::min(text.size(), begin + most + 1)), begin);
  return std::min(end == kNone ? text.find('\n', begin + most + 1) : end, text.size());
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
    const size_t end = row_end(schema, text, begin);
    if (end == text.size()) return begin;
    begin = end + 1;
  }
  return begin;
}

}  // namespace paddock::reader
