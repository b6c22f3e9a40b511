// Convolution of 8-bit images NHWC with 8-bit weights KRSC. The results depend on the values only: not on the number
// of threads, nor on the instruction set.
#pragma once
#include "cpu/conv/conv_grid.h"
#include "cpu/quantized/requantize.h"

namespace paddock::cpu {

struct Int8Conv {
  ConvGeometry g;
  const uint8_t* x;  // what stands for 0 is x_zero
  int32_t x_zero;
  const int8_t* weight;
  Requantize end;
  bool widening;  // do without dot products of bytes
  Prepared prepared;
};

void conv2d_int8(const Int8Conv& conv);

// One channel a group.
template <class D>
void depthwise_int8(const Int8Conv& conv);

}  // namespace paddock::cpu
