// The memory planner: gives every temporary an offset in one arena so that values alive together do not
// overlap.
#pragma once
#include <cstdint>
#include <vector>

#include "core/api.h"

namespace paddock {

// A block that is written first at step `first` and read last at step `last` (both included).
struct Block {
  int64_t bytes;
  int first, last;
  int64_t offset = 0;  // set by place_blocks
};

// Largest first, each into the smallest gap that holds it (greedy by size, best fit); returns the arena's
// size.
PADDOCK_API int64_t place_blocks(std::vector<Block>& blocks);
// The most bytes alive at one step: no plan can need fewer.
PADDOCK_API int64_t lower_bound_bytes(const std::vector<Block>& blocks);

}  // namespace paddock
