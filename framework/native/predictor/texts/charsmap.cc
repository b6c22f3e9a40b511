// The normalizer Precompiled: sentencepiece's table of characters and what becomes of them, a double array (Aoe 1989)
// of their bytes and texts behind it, looked up as the library `tokenizers` does: clusters of less than six bytes as a
// whole, by the shortest key that they begin with; what has none, character by character.
#include <cstring>
#include <stdexcept>

#include "core/error.h"
#include "predictor/base64.h"
#include "predictor/texts/graphemes.h"
#include "predictor/texts/parts.h"
#include "reader/utf8.h"

namespace paddock::texts {
namespace {

using predictor::Json;

constexpr size_t kMostUnits = size_t{1} << 18;  // sentencepiece's largest table has 60,000
constexpr size_t kLongestWhole = 5;             // bytes of a cluster that is looked up as a whole

class Charsmap {
 public:
  explicit Charsmap(const std::string& bytes) {
    uint32_t size = 0;
    if (bytes.size() < sizeof size) damaged("has no header");
    std::memcpy(&size, bytes.data(), sizeof size);
    const size_t rest = bytes.size() - sizeof size;
    if (size > rest) damaged("is cut off");
    units_.resize(size / sizeof(uint32_t));
    if (units_.empty() || units_.size() > kMostUnits) damaged(cat("has ", units_.size(), " units"));
    std::memcpy(units_.data(), bytes.data() + sizeof size, units_.size() * sizeof(uint32_t));
    texts_ = bytes.substr(sizeof size + units_.size() * sizeof(uint32_t));
    if (!reader::is_utf8(texts_)) damaged("has texts that are no UTF-8");
    check();
  }

  Characters operator()(const Characters& text) const {
    Characters to;
    to.reserve(text.size());
    for (std::u32string_view left = text; !left.empty();) {
      const std::u32string_view cluster = left.substr(0, first_cluster(left));
      left.remove_prefix(cluster.size());
      const std::string whole = cluster.size() <= kLongestWhole ? encoded(cluster) : std::string();
      if (cluster.size() <= kLongestWhole && whole.size() <= kLongestWhole && append(whole, to)) continue;
      for (const char32_t c : cluster)
        if (!append(encoded({&c, 1}), to)) to.push_back(c);
    }
    return to;
  }

 private:
  [[noreturn]] static void damaged(const std::string& what) {
    fail(ErrorKind::kNotSupported, "tokenizer: the table of the normalizer Precompiled ", what);
  }

  static size_t offset_of(uint32_t unit) { return size_t{unit >> 10} << ((unit & 0x200) >> 6); }
  static bool has_leaf(uint32_t unit) { return unit & 0x100; }
  static size_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
  static uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }

  // Whatever key is looked up, all units and texts are there.
  void check() const {
    std::vector<bool> seen(units_.size());
    std::vector<size_t> waiting{0};
    seen[0] = true;
    while (!waiting.empty()) {
      const size_t at = waiting.back();
      waiting.pop_back();
      const size_t base = at ^ offset_of(units_[at]);
      if ((base | 0xFF) >= units_.size()) damaged("leads out of itself");
      if (has_leaf(units_[at])) check_text(value_of(units_[base]));
      for (size_t label = 1; label < 256; ++label) {
        const size_t next = base ^ label;
        if (label_of(units_[next]) != label || seen[next]) continue;
        seen[next] = true;
        waiting.push_back(next);
      }
    }
  }

  void check_text(size_t at) const {
    if (at > texts_.size() || (at < texts_.size() && (static_cast<unsigned char>(texts_[at]) & 0xC0) == 0x80))
      damaged("names a text that is none");
  }

  // Appends what stands for the shortest key that the text begins with; false where there is none.
  bool append(std::string_view text, Characters& to) const {
    size_t at = offset_of(units_[0]);
    for (const char c : text) {
      const auto label = static_cast<unsigned char>(c);
      if (!label) return false;
      at ^= label;
      const uint32_t unit = units_[at];
      if (label_of(unit) != label) return false;
      at ^= offset_of(unit);
      if (!has_leaf(unit)) continue;
      const size_t begin = value_of(units_[at]);
      to += decoded(std::string_view(texts_).substr(begin, std::strlen(texts_.c_str() + begin)));
      return true;
    }
    return false;
  }

  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a zero
};

}  // namespace

Normalizer charsmap_normalizer(const Json& json) {
  std::string bytes;
  if (!predictor::from_base64(text_of(json, "precompiled_charsmap"), bytes))
    fail(ErrorKind::kNotSupported, "tokenizer: the table of the normalizer Precompiled is no Base64");
  return [map = std::make_shared<const Charsmap>(bytes)](const Characters& text) { return (*map)(text); };
}

}  // namespace paddock::texts
