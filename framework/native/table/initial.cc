// Philox blocks numbered by (key, column / 4) under the table's seed.
#include "table/initial.h"

#include <cmath>
#include <numbers>

#include "core/random.h"

namespace paddock::table {
namespace {

constexpr uint32_t kValues = 0, kAdmission = 1;  // what a block is for

std::array<uint32_t, 4> block(uint64_t seed, uint64_t key, uint32_t index, uint32_t purpose) {
  return philox4x32({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
                    {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32), index, purpose});
}

// Worked out in double and rounded once, so that mathematical libraries that differ in a last bit give one value.
float uniform(uint32_t word, double half_width) { return static_cast<float>(half_width * (2.0 * to_unit(word) - 1.0)); }

// Box and Muller 1958: two words make two values; `second` says which.
float normal(uint32_t a, uint32_t b, bool second, double deviation) {
  const double u = (static_cast<double>(a >> 8) + 1.0) * 0x1p-24, angle = 2.0 * std::numbers::pi * to_unit(b);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return static_cast<float>(deviation * radius * (second ? std::sin(angle) : std::cos(angle)));
}

}  // namespace

void Initial::fill(uint64_t key, float* value) const {
  int64_t column = 0;
  uint32_t held = ~uint32_t{0};
  std::array<uint32_t, 4> words{};
  for (const InitPart& part : parts_) {
    for (const int64_t end = column + part.columns; column < end; ++column) {
      if (part.kind == InitKind::kZeros) {
        value[column] = 0;
        continue;
      }
      const auto index = static_cast<uint32_t>(column / 4);
      if (index != held) words = block(seed_, key, held = index, kValues);
      const auto w = static_cast<size_t>(column % 4), pair = w & ~size_t{1};
      value[column] = part.kind == InitKind::kUniform ? uniform(words[w], part.scale)
                                                      : normal(words[pair], words[pair + 1], w & 1, part.scale);
    }
  }
}

double Initial::draw(uint64_t key) const { return to_unit(block(seed_, key, 0, kAdmission)[0]); }

}  // namespace paddock::table
