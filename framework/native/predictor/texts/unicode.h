// Characters as the library `tokenizers` knows them, by tables that tools/unicode_tables.py asks it for.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace paddock::texts {

// In the order of the tables' bits.
enum CharacterKind : uint16_t {
  kRemoved = 1,       // by BERT's cleaning
  kBlank = 2,         // a space after BERT's cleaning
  kChinese = 4,       // BERT puts spaces around it
  kAccent = 8,        // BERT takes it off
  kSpace = 16,        // words end there
  kPunctuation = 32,  // a word by itself for BERT
  kLetter = 64,       // \p{L}
  kNumber = 128,      // \p{N}
  kRegexSpace = 256,  // \s
  kWord = 512,        // \w of the pre-tokenizer Whitespace
  kMark = 1024,       // StripAccents takes it off
};

bool is_kind(char32_t c, int kinds);

// What decides where clusters of characters end (UAX 29), in the order of the tables' bits.
enum GraphemeKind : uint8_t {
  kAttaches = 1,     // to what stands before it
  kExtends = 2,      // a pictograph, which a joiner behind it then joins to the next
  kPrepends = 4,     // to what stands behind it
  kBreaks = 8,       // on both sides
  kPictograph = 16,  // may be joined to one before it
  kConsonant = 32,   // of an Indic script, may be linked to one before it
  kLinker = 64,      // links them
  kConjunct = 128,   // may stand between them
};

int grapheme_bits(char32_t c);

using Characters = std::u32string;

// Throws Error of kind kAttribute for what is no UTF-8.
Characters decoded(std::string_view text);
std::string encoded(std::u32string_view characters);

Characters lower_case(const Characters& text);
// NFD; NFKD where `compatible` (UAX 15).
Characters decomposed(const Characters& text, bool compatible);
// NFC of what is decomposed.
Characters composed(const Characters& text);

}  // namespace paddock::texts
