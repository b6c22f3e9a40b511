// Lookups by binary search, and the normal forms over them.
#include "predictor/texts/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "core/error.h"
#include "reader/utf8.h"

namespace paddock::texts {
namespace {

#include "predictor/texts/unicode_tables.inc"

// Syllables of Hangul follow from their numbers (Unicode 3.12).
constexpr char32_t kFirstSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;

uint16_t searched(char32_t c) {
  const auto* found = std::upper_bound(std::begin(kRunStarts), std::end(kRunStarts), c) - 1;
  return kRunBits[found - kRunStarts];
}

uint16_t bits_of(char32_t c) {
  static const auto ascii = [] {
    std::array<uint16_t, 128> table{};
    for (char32_t i = 0; i < 128; ++i) table[i] = searched(i);
    return table;
  }();
  return c < 128 ? ascii[c] : searched(c);
}

// What a table says instead of a character; an empty view where nothing.
struct Change {
  const uint32_t* text;
  size_t size;
};

template <size_t N, size_t M>
bool find(const uint32_t (&codes)[N], const uint16_t (&ends)[N], const uint32_t (&texts)[M], char32_t c, Change& to) {
  const auto* found = std::lower_bound(std::begin(codes), std::end(codes), c);
  if (found == std::end(codes) || *found != c) return false;
  const auto i = static_cast<size_t>(found - codes);
  const size_t begin = i ? ends[i - 1] : 0;
  to = {texts + begin, ends[i] - begin};
  return true;
}

int class_of(char32_t c) {
  if (c < 0x300) return 0;
  const auto* found = std::lower_bound(std::begin(kClassCodes), std::end(kClassCodes), c);
  return found == std::end(kClassCodes) || *found != c ? 0 : kClasses[found - kClassCodes];
}

// The character that the two join to; 0 where they do not.
char32_t joined(char32_t first, char32_t second) {
  if (first >= kLead && first < kLead + kLeads && second >= kVowel && second < kVowel + kVowels)
    return kFirstSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  if (first >= kFirstSyllable && first < kFirstSyllable + kSyllables && (first - kFirstSyllable) % kTails == 0 &&
      second > kTail && second < kTail + kTails)
    return first + (second - kTail);
  size_t low = 0, high = std::size(kPairs) / 3;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const uint32_t *pair = kPairs + 3 * middle, a = pair[0], b = pair[1];
    if (a == first && b == second) return pair[2];
    (a < first || (a == first && b < second) ? low : high) =
        a < first || (a == first && b < second) ? middle + 1 : middle;
  }
  return 0;
}

void append_parts(char32_t c, bool compatible, Characters& to) {
  if (c < 0x80) {
    to.push_back(c);
  } else if (c >= kFirstSyllable && c < kFirstSyllable + kSyllables) {
    const char32_t i = c - kFirstSyllable;
    to.push_back(kLead + i / (kVowels * kTails));
    to.push_back(kVowel + i % (kVowels * kTails) / kTails);
    if (i % kTails) to.push_back(kTail + i % kTails);
  } else if (Change change{}; (compatible && find(kCompatibleCodes, kCompatibleEnds, kCompatibleTexts, c, change)) ||
                              find(kCanonicalCodes, kCanonicalEnds, kCanonicalTexts, c, change)) {
    for (size_t i = 0; i < change.size; ++i) to.push_back(change.text[i]);
  } else {
    to.push_back(c);
  }
}

}  // namespace

int grapheme_bits(char32_t c) {
  const auto* found = std::upper_bound(std::begin(kGraphemeStarts), std::end(kGraphemeStarts), c) - 1;
  return kGraphemeBits[found - kGraphemeStarts];
}

bool is_kind(char32_t c, int kinds) { return (bits_of(c) & kinds) != 0; }

Characters decoded(std::string_view text) {
  if (!reader::is_utf8(text)) fail(ErrorKind::kAttribute, "the text is no UTF-8");
  Characters found;
  found.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const int more = byte < 0x80 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    char32_t c = more == 0 ? byte : byte & (0x3F >> more);
    for (int k = 1; k <= more; ++k) c = c << 6 | (static_cast<unsigned char>(text[i + static_cast<size_t>(k)]) & 0x3F);
    found.push_back(c);
    i += static_cast<size_t>(more) + 1;
  }
  return found;
}

std::string encoded(std::u32string_view characters) {
  std::string to;
  to.reserve(characters.size());
  for (const char32_t c : characters) {
    if (c < 0x80) {
      to.push_back(static_cast<char>(c));
      continue;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr uint32_t first[] = {0, 0xC0, 0xE0, 0xF0};
    to.push_back(static_cast<char>(first[more] | (c >> (6 * more))));
    for (int i = more - 1; i >= 0; --i) to.push_back(static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F)));
  }
  return to;
}

Characters lower_case(const Characters& text) {
  Characters to;
  to.reserve(text.size());
  for (const char32_t c : text) {
    if (c < 0x80) {
      to.push_back(c >= 'A' && c <= 'Z' ? c + 32 : c);
    } else if (Change change{}; find(kLowerCodes, kLowerEnds, kLowerTexts, c, change)) {
      for (size_t i = 0; i < change.size; ++i) to.push_back(change.text[i]);
    } else {
      to.push_back(c);
    }
  }
  return to;
}

Characters decomposed(const Characters& text, bool compatible) {
  Characters to;
  to.reserve(text.size());
  for (const char32_t c : text) append_parts(c, compatible, to);
  // Marks in a row stand in the order of their classes.
  for (size_t i = 0; i < to.size();) {
    if (class_of(to[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < to.size() && class_of(to[end]) != 0) ++end;
    std::stable_sort(to.begin() + static_cast<std::ptrdiff_t>(i), to.begin() + static_cast<std::ptrdiff_t>(end),
                     [](char32_t a, char32_t b) { return class_of(a) < class_of(b); });
    i = end;
  }
  return to;
}

Characters composed(const Characters& text) {
  Characters to;
  to.reserve(text.size());
  size_t starter = Characters::npos;
  int last = 0;  // the class of what was written last behind the starter
  for (const char32_t c : text) {
    const int rank = class_of(c);
    if (starter != Characters::npos && (starter + 1 == to.size() || (last < rank && last != 0)))
      if (const char32_t both = joined(to[starter], c)) {
        to[starter] = both;
        continue;
      }
    if (rank == 0) starter = to.size();
    last = rank;
    to.push_back(c);
  }
  return to;
}

}  // namespace paddock::texts
