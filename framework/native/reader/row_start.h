// Where rows of a text begin, in a log whose quoted values may hold ends of lines.
#pragma once
#include <string_view>

#include "core/api.h"
#include "reader/schema.h"

namespace paddock::reader {

// The place of the line end that ends the row at `begin`, or the text's size where it holds none. A quote that is not
// closed within `line_bytes` is a stray one, and so is one whose value holds lines that all look like rows: the row
// ends with its line, which is wrong, and the lines behind it are rows of their own.
PADDOCK_API size_t row_end(const LogSchema& schema, std::string_view text, size_t begin);

// The first row that begins at or behind `at_least`; where the text does not tell, the last row that begins in it. A
// row begins at `begin`; one that begins at the text's size counts.
PADDOCK_API size_t row_start(const LogSchema& schema, std::string_view text, size_t begin, size_t at_least);

}  // namespace paddock::reader
