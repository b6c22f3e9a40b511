// Two-dimensional convolution and its two gradients: images NHWC, weights KRSC, float and double.
// The results depend on the sizes only, never on the number of threads.
#pragma once
#include <cstdint>

#include "cpu/gemm.h"

namespace paddock::cpu {

// x [N, H, W, C], w [K, R, S, C / groups], y [N, P, Q, K].
// Output pixel (p, q) reads rows p * stride_h - pad_top + r * dil_h and columns q * stride_w - pad_left + s * dil_w;
// pixels outside the image are 0. The padding below and to the right follows from P and Q.
struct ConvGeometry {
  int64_t N, H, W, C, K, R, S, P, Q;
  int64_t stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0, dil_h = 1, dil_w = 1, groups = 1;
};

// y = activation(conv(x, w) + bias + residual).
template <class T>
void conv2d_forward(const ConvGeometry& g, const T* x, const T* w, T* y, const Epilogue<T>& epilogue = {});

// dx [N, H, W, C] of dy [N, P, Q, K].
template <class T>
void conv2d_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx);

// dw [K, R, S, C / groups] of x and dy.
template <class T>
void conv2d_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw);

}  // namespace paddock::cpu
