// Two-dimensional convolution and its two gradients: images NHWC, weights KRSC, float and double.
// The results depend on the sizes only, never on the number of threads.
#pragma once
#include <cstdint>

#include "cpu/gemm/gemm.h"
#include "op/prepared.h"

namespace paddock::cpu {

// x [N, H, W, C], w [K, R, S, C / groups], y [N, P, Q, K].
// Output pixel (p, q) reads rows p * stride_h - pad_top + r * dil_h and columns q * stride_w - pad_left + s * dil_w;
// pixels outside the image are 0. The padding below and to the right follows from P and Q.
struct ConvGeometry {
  int64_t N, H, W, C, K, R, S, P, Q;
  int64_t stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0, dil_h = 1, dil_w = 1, groups = 1;
};

// kAuto takes what a cost model of the shape expects to be fastest. kWinograd is float32's transform-based algorithm
// for 3 x 3 kernels of stride and groups 1, of dilation 1 or keeping the image's size (maximum error 1e-5 of the
// largest output); kDirect multiplies and adds every product. kWinograd where it does not exist is kDirect.
enum class ConvAlgorithm { kAuto, kDirect, kWinograd };
enum class ConvPass { kForward, kGradInput, kGradWeight };

// What `wanted` comes to for this shape: kDirect or kWinograd. `element_size` is 4 for float, 8 for double.
ConvAlgorithm conv2d_algorithm(const ConvGeometry& g, ConvPass pass, int element_size,
                               ConvAlgorithm wanted = ConvAlgorithm::kAuto);

// y = activation(conv(x, w) + bias + residual), or the residual last. `prepared`, here and below, keeps what is derived
// from w.
template <class T>
void conv2d_forward(const ConvGeometry& g, const T* x, const T* w, T* y, const Epilogue<T>& epilogue = {},
                    ConvAlgorithm algorithm = ConvAlgorithm::kAuto, const Prepared& prepared = {});

// A depthwise convolution g (K = groups = C) through its epilogue, and a 1 x 1 convolution of the result to K channels.
template <class T>
struct SeparableConv {
  ConvGeometry g;
  const T *x, *depth_weight, *weight;  // weight [K, C]
  int64_t K;
  T* y;  // [N, P, Q, K]
  Epilogue<T> depth_epilogue{}, epilogue{};
  Prepared depth_prepared{}, prepared{};
};

template <class T>
void separable_forward(const SeparableConv<T>& s);

// dx [N, H, W, C] of dy [N, P, Q, K].
template <class T>
void conv2d_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx,
                       ConvAlgorithm algorithm = ConvAlgorithm::kAuto, const Prepared& prepared = {});

// dw [K, R, S, C / groups] of x and dy.
template <class T>
void conv2d_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                        ConvAlgorithm algorithm = ConvAlgorithm::kAuto);

}  // namespace paddock::cpu
