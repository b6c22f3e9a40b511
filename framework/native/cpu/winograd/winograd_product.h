// The product of a Winograd position: a plain, packed, in-cache matrix product without an epilogue.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/gemm/gemm_tile.h"

namespace paddock::cpu {

// Asks for memory that the next step will read, a few cache lines at a time while this one computes.
class Prefetcher {
 public:
  Prefetcher() = default;
  // `rows` rows of `columns` floats, row_step elements apart.
  Prefetcher(const float* base, int64_t row_step, int64_t rows, int64_t columns)
      : base_(base), row_step_(row_step), row_lines_(ceil_div(columns, 16)), left_(rows * row_lines_) {}

  // Deals the lines out to so many calls of run.
  void spread(int64_t calls) { each_ = ceil_div(left_, calls); }

  // Inlined by force: GCC takes a function of prefetches alone for one without effect and drops its calls.
  PADDOCK_INLINE void run() {
    for (int64_t i = std::min(each_, left_); i > 0; --i, --left_) {
      __builtin_prefetch(base_ + line_ * 16, 0, 2);
      if (++line_ < row_lines_) continue;
      line_ = 0;
      base_ += row_step_;
    }
  }

 private:
  const float* base_ = nullptr;
  int64_t row_step_ = 0, row_lines_ = 0, left_ = 0, each_ = 0, line_ = 0;
};

// c[i * c_row + j] (+)= sum over k < depth of a[i * a_row + k * a_step] * b[k * b_row + j], for i < rows and
// j < columns, a multiple of the vector and at most kPanelWidth<float>.
struct PanelProduct {
  const float* a;
  int64_t a_row, a_step, rows;
  const float* b;
  int64_t b_row, columns, depth;
  float* c;
  int64_t c_row;
  bool add;  // to what c holds
};

void multiply_panel(const PanelProduct& p, Prefetcher& prefetcher);

}  // namespace paddock::cpu
