// Convolution of 8-bit images NHWC, or of float32 ones rounded to 16 bits, with 8-bit weights KRSC. The results depend
// on the values only: not on the number of threads, nor on the instruction set.
#pragma once
#include "cpu/conv/conv_grid.h"
#include "cpu/quantized/requantize.h"

namespace paddock::cpu {

// kAuto takes the processor's dot products of bytes; where it has none, Winograd's transforms or products of words,
// whichever a shape makes faster. kWinograd where it does not exist is kAuto. The bits are the same.
enum class Int8Algorithm { kAuto, kWidening, kWinograd };

struct Int8Conv {
  ConvGeometry g;
  const uint8_t* x;  // what stands for 0 is x_zero
  int32_t x_zero;
  const int8_t* weight;
  Requantize end;
  Int8Algorithm algorithm;
  Prepared prepared;
  const float* x32 = nullptr;  // in place of x: rounded to steps of x_scale, in [-x_most, x_most]
  float x_scale = 1;
  int32_t x_most = 0;  // 0 where x has 8 bits

  bool words() const { return x_most > 0; }
};

void conv2d_int8(const Int8Conv& conv);

// Says how conv2d_int8 will go; looks at no data.
void note_algorithm(const Int8Conv& conv);

// One channel a group; `widening`: without dot products of bytes.
void depthwise_int8(const Int8Conv& conv, bool widening);

// The first n numbers of conv.x32 in 16 bits.
void round_to_words(const Int8Conv& conv, int64_t n, int16_t* to);

}  // namespace paddock::cpu
