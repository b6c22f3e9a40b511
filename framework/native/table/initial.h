// Initial values of a row, from the table's seed and its key alone: the same wherever and whenever the row is born.
#pragma once
#include <vector>

#include "table/config.h"

namespace paddock::table {

class Initial {
 public:
  Initial(std::vector<InitPart> parts, uint64_t seed) : parts_(std::move(parts)), seed_(seed) {}

  void fill(uint64_t key, float* value) const;  // value: [dim]
  // Uniform in [0, 1), for admission by chance.
  double draw(uint64_t key) const;

 private:
  std::vector<InitPart> parts_;
  uint64_t seed_;
};

}  // namespace paddock::table
