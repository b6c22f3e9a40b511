#include "predictor/texts/graphemes.h"

namespace paddock::texts {
namespace {

// Parts of syllables of Hangul; their numbers follow from the standard (UAX 29, table 2).
enum Hangul { kNone, kLead, kVowel, kTail, kOpen, kClosed };

Hangul hangul_of(char32_t c) {
  if (c < 0x1100) return kNone;
  if (c < 0x1160 || (c >= 0xA960 && c < 0xA97D)) return kLead;
  if (c < 0x11A8 || (c >= 0xD7B0 && c < 0xD7C7)) return kVowel;
  if (c < 0x1200 || (c >= 0xD7CB && c < 0xD7FC)) return kTail;
  return c < 0xAC00 || c >= 0xD7A4 ? kNone : (c - 0xAC00) % 28 == 0 ? kOpen : kClosed;
}

bool is_flag(char32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }  // a regional indicator; two make a flag

bool joins(Hangul first, Hangul second) {
  if (first == kLead) return second == kLead || second == kVowel || second == kOpen || second == kClosed;
  if (first == kVowel || first == kOpen) return second == kVowel || second == kTail;
  return (first == kTail || first == kClosed) && second == kTail;
}

// What of the cluster so far decides whether another character joins it.
struct Cluster {
  int last;
  Hangul hangul;
  bool flag;                // it ends with the first half of a flag
  bool pictograph, joiner;  // a pictograph and what extends it; a zero-width joiner behind it
  bool consonant, linker;   // a consonant and what keeps it open; a linker among that

  explicit Cluster(char32_t c)
      : last(grapheme_bits(c)),
        hangul(hangul_of(c)),
        flag(is_flag(c)),
        pictograph(last & kPictograph),
        joiner(false),
        consonant(last & kConsonant),
        linker(false) {}

  bool takes(char32_t c) {
    const int bits = grapheme_bits(c);
    const Hangul part = hangul_of(c);
    if ((last | bits) & kBreaks) return false;
    const bool takes = (bits & kAttaches) || (last & kPrepends) || joins(hangul, part) || (flag && is_flag(c)) ||
                       (joiner && (bits & kPictograph)) || (linker && (bits & kConsonant));
    if (!takes) return false;
    flag = !flag && is_flag(c);
    joiner = pictograph && c == 0x200D;
    pictograph = (pictograph && (bits & kExtends)) || (bits & kPictograph);
    linker = consonant && (bits & kConjunct) && (linker || (bits & kLinker));
    consonant = (consonant && (bits & kConjunct)) || (bits & kConsonant);
    last = bits;
    hangul = part;
    return true;
  }
};

}  // namespace

size_t first_cluster(std::u32string_view text) {
  size_t count = 1;
  if (text[0] == U'\r' && text.size() > 1 && text[1] == U'\n') return 2;
  for (Cluster cluster(text[0]); count < text.size() && cluster.takes(text[count]);) ++count;
  return count;
}

}  // namespace paddock::texts
