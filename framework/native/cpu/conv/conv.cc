// Which convolution algorithm a shape takes.
#include "cpu/conv/conv.h"

#include <type_traits>

#include "cpu/conv/conv_grid.h"
#include "cpu/conv/conv_phases.h"
#include "cpu/winograd/winograd_fused.h"
#include "op/record.h"

namespace paddock::cpu {
namespace {

constexpr const char* kWinogradName = "winograd F(4x4,3x3)";
constexpr const char* kPhasesName = "winograd F(4x4,3x3) of phases";

// Costs in multiply-adds of the products' register tiles, measured with AVX-512 and AVX2: of a multiply-add of the
// direct algorithm, with its packing of the weights, and of a transformed value of an image and of the weights.
constexpr double kDirectCost = 1.25, kDirectWeightGradientCost = 1.5, kPackCost = 4;
constexpr double kImageCost = 20, kWeightCost = 13.5, kWeightGradientCost = 8;
constexpr double kPhaseCost = 20;   // of a value that is copied to the phases of an image, or back
constexpr double kFusedCost = 215;  // of all products of a pair of channels, made where their weights are transformed

// `g` itself, or the phases of a convolution of `outputs` pixels, copied for `extra`.
bool winograd_pays(const ConvGeometry& g, ConvPass pass, int64_t outputs, double extra) {
  if (g.C < 8 || g.K < 8) return false;
  const bool to_weight = pass == ConvPass::kGradWeight;
  const TiledImage image = pass == ConvPass::kGradInput ? TiledImage{g.N, g.P, g.Q, g.K, g.H, g.W, g.C, 0, 0}
                                                        : TiledImage{g.N, g.H, g.W, g.C, g.P, g.Q, g.K, 0, 0};
  const double pixels = static_cast<double>(outputs);
  const double pairs = static_cast<double>(g.C * g.K), channels = static_cast<double>(padded(g.C) + padded(g.K));
  const double direct = pairs * 9 * (to_weight ? kDirectWeightGradientCost * pixels : kDirectCost * pixels + kPackCost);
  const double images = kPositions * kImageCost * static_cast<double>(image.tiles) * channels + extra;
  if (pass == ConvPass::kForward && fused_products_apply(image)) return images + kFusedCost * pairs < direct;
  const double weights = kPositions * (to_weight ? kWeightGradientCost : kWeightCost) * pairs;
  return images + weights + static_cast<double>(image.products()) * pairs < direct;
}

// Of the convolution as it stands or of its phases.
bool some_winograd_pays(const ConvGeometry& g, ConvPass pass) {
  const int64_t outputs = g.N * (pass == ConvPass::kGradInput ? g.H * g.W : g.P * g.Q);
  if (!phases_apply(g)) return winograd_pays(g, pass, outputs, 0);
  return winograd_pays(phases_of(g), pass, outputs, kPhaseCost * static_cast<double>(outputs * (g.C + g.K)));
}

}  // namespace

ConvAlgorithm conv2d_algorithm(const ConvGeometry& g, ConvPass pass, int element_size, ConvAlgorithm wanted) {
  if (wanted == ConvAlgorithm::kDirect || element_size != 4) return ConvAlgorithm::kDirect;
  if (g.C == 0 || g.K == 0 || !(winograd_applies(g) || phases_apply(g))) return ConvAlgorithm::kDirect;
  if (wanted == ConvAlgorithm::kWinograd || some_winograd_pays(g, pass)) return ConvAlgorithm::kWinograd;
  return ConvAlgorithm::kDirect;
}

template <class T>
void conv2d_forward(const ConvGeometry& g, const T* x, const T* w, T* y, const Epilogue<T>& epilogue,
                    ConvAlgorithm algorithm, const Prepared& prepared) {
  if (is_depthwise(g)) {
    note_implementation("depthwise");
    return depthwise_forward(g, x, w, y, epilogue, prepared);
  }
  if constexpr (std::is_same_v<T, float>)
    if (conv2d_algorithm(g, ConvPass::kForward, sizeof(T), algorithm) == ConvAlgorithm::kWinograd) {
      const bool phases = phases_apply(g);
      note_implementation(phases ? kPhasesName : kWinogradName);
      return phases ? phases_forward(g, x, w, y, epilogue, prepared) : winograd_forward(g, x, w, y, epilogue, prepared);
    }
  note_implementation("direct");
  direct_forward(g, x, w, y, epilogue, prepared);
}

template <class T>
void conv2d_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx, ConvAlgorithm algorithm,
                       const Prepared& prepared) {
  if (is_depthwise(g)) {
    note_implementation("depthwise");
    return depthwise_grad_input(g, dy, w, dx, prepared);
  }
  if constexpr (std::is_same_v<T, float>)
    if (conv2d_algorithm(g, ConvPass::kGradInput, sizeof(T), algorithm) == ConvAlgorithm::kWinograd) {
      const bool phases = phases_apply(g);
      note_implementation(phases ? kPhasesName : kWinogradName);
      return phases ? phases_grad_input(g, dy, w, dx, prepared) : winograd_grad_input(g, dy, w, dx, prepared);
    }
  note_implementation("direct");
  direct_grad_input(g, dy, w, dx, prepared);
}

template <class T>
void conv2d_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw, ConvAlgorithm algorithm) {
  if (is_depthwise(g)) {
    note_implementation("depthwise");
    return depthwise_grad_weight(g, x, dy, dw);
  }
  if constexpr (std::is_same_v<T, float>)
    if (conv2d_algorithm(g, ConvPass::kGradWeight, sizeof(T), algorithm) == ConvAlgorithm::kWinograd) {
      const bool phases = phases_apply(g);
      note_implementation(phases ? kPhasesName : kWinogradName);
      return phases ? phases_grad_weight(g, x, dy, dw) : winograd_grad_weight(g, x, dy, dw);
    }
  note_implementation("direct");
  direct_grad_weight(g, x, dy, dw);
}

#define PADDOCK_INSTANTIATE(T)                                                                                     \
  template void conv2d_forward<T>(const ConvGeometry&, const T*, const T*, T*, const Epilogue<T>&, ConvAlgorithm,  \
                                  const Prepared&);                                                                \
  template void conv2d_grad_input<T>(const ConvGeometry&, const T*, const T*, T*, ConvAlgorithm, const Prepared&); \
  template void conv2d_grad_weight<T>(const ConvGeometry&, const T*, const T*, T*, ConvAlgorithm);
PADDOCK_INSTANTIATE(float)
PADDOCK_INSTANTIATE(double)
#undef PADDOCK_INSTANTIATE

}  // namespace paddock::cpu
