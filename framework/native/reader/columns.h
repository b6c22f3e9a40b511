// Rows from columns of texts, such as Arrow's, whose memory stays the caller's.
#pragma once
#include <span>

#include "reader/rows.h"

namespace paddock::reader {

// Texts laid end to end. With `lists`, row r has texts lists[r] .. lists[r + 1]; else it has text r.
struct TextColumn {
  std::span<const char> data;
  std::span<const int64_t> offsets;  // [texts + 1]
  std::span<const uint8_t> valid;    // [texts]; none: all are there
  std::span<const int64_t> lists;    // [N + 1]; none: one text a row
};

// Rows of `columns`, one a column of the schema. A bad row is left out and counted; its line is its number, from 0.
// Of the first `kept` bad rows is told what is wrong.
PADDOCK_API std::shared_ptr<LogRows> parse_columns(std::shared_ptr<const LogSchema> schema,
                                                   const std::vector<TextColumn>& columns, int64_t rows,
                                                   size_t kept = 32);

}  // namespace paddock::reader
