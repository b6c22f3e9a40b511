// Where one character as a reader sees it ends and the next begins (UAX 29, extended grapheme clusters).
#pragma once
#include <string_view>

#include "predictor/texts/unicode.h"

namespace paddock::texts {

// How many characters of `text`, which has some, the first cluster takes.
size_t first_cluster(std::u32string_view text);

}  // namespace paddock::texts
