// A dilated convolution as a plain one: with dilation d, output row p reads rows p - d, p and p + d, so that rows of
// one remainder by d ("phase") never meet the others. The d x d phases of an image, laid out as images of their own,
// are convolved without dilation, which Winograd's algorithm takes.
#pragma once
#include "cpu/conv/conv.h"
#include "op/prepared.h"

namespace paddock::cpu {

// Whether g is a 3 x 3 convolution of stride 1 that dilates and keeps the image's size.
bool phases_apply(const ConvGeometry& g);

// The convolution of the phases: N dil_h dil_w images, of ceil(H / dil_h) x ceil(W / dil_w) pixels.
ConvGeometry phases_of(const ConvGeometry& g);

// As winograd_forward and its gradients, for a g of which `phases_apply`.
void phases_forward(const ConvGeometry& g, const float* x, const float* w, float* y, const Epilogue<float>& e,
                    const Prepared& prepared);
void phases_grad_input(const ConvGeometry& g, const float* dy, const float* w, float* dx, const Prepared& prepared);
void phases_grad_weight(const ConvGeometry& g, const float* x, const float* dy, float* dw);

}  // namespace paddock::cpu
