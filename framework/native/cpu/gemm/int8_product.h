// y [M, N] = activation(q w^T * scale of the row * scale of the column + bias + residual): rows of float32 are
// rounded to 8 or 16 bits, multiplied with 8-bit weights in exact 32-bit sums, and become float32 again on the way to
// memory.
#pragma once
#include <cstdint>

#include "cpu/gemm/gemm.h"

namespace paddock::cpu {

struct Int8Product {
  int64_t M, N, K;
  const float* x;             // [M, K]
  const int8_t* weight;       // [N, K]
  const float* weight_scale;  // [N]
  float x_scale;              // what 1 of a row's numbers stands for; 0: each row has its own, largest value / x_most
  int32_t x_most;             // the largest number of a row; above 127 they have 16 bits
  float* y;                   // [M, N]
  Epilogue<float> epilogue;   // bias, residual and activation
  bool widening;              // do without dot products of bytes
};

// The result depends on the values only: not on the number of threads, nor on the instruction set unless the epilogue
// has a loop. `prepared` keeps what is derived from the weights.
void multiply_int8(const Int8Product& p, const Prepared& prepared);

// Fails where 32 bits do not hold the sum of a row of weights [rows, depth] with numbers in [-most, most].
void expect_exact_sums(const char* who, const int8_t* weight, int64_t rows, int64_t depth, int64_t most);

}  // namespace paddock::cpu
