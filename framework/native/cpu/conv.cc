// Which convolution algorithm a shape takes.
#include "cpu/conv.h"

#include <type_traits>

#include "cpu/conv_grid.h"
#include "cpu/winograd.h"
#include "op/record.h"

namespace paddock::cpu {
namespace {

constexpr const char* kWinogradName = "winograd F(4x4,3x3)";

// Costs in multiply-adds: a transformed value costs about as much as this many of them.
// The weight gradient transforms its weights once and back only.
constexpr double kTransformCost = 10, kWeightCost = 12, kWeightGradientCost = 6;

bool winograd_pays(const ConvGeometry& g, ConvPass pass) {
  const bool back = pass == ConvPass::kGradInput;
  const int64_t h = back ? g.H : g.P, w = back ? g.W : g.Q;
  const double weight_cost = pass == ConvPass::kGradWeight ? kWeightGradientCost : kWeightCost;
  const double tiles = static_cast<double>(g.N * ((h + 3) / 4) * ((w + 3) / 4));
  const double C = static_cast<double>(g.C), K = static_cast<double>(g.K);
  const double direct = 9.0 * static_cast<double>(g.N * h * w) * C * K;
  const double winograd = kPositions * (tiles * C * K + kTransformCost * tiles * (C + K) + weight_cost * C * K);
  return g.C >= 8 && g.K >= 8 && winograd < direct;
}

}  // namespace

ConvAlgorithm conv2d_algorithm(const ConvGeometry& g, ConvPass pass, int element_size, ConvAlgorithm wanted) {
  if (wanted == ConvAlgorithm::kDirect || element_size != 4 || !winograd_applies(g)) return ConvAlgorithm::kDirect;
  if (wanted == ConvAlgorithm::kWinograd || winograd_pays(g, pass)) return ConvAlgorithm::kWinograd;
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
      note_implementation(kWinogradName);
      return winograd_forward(g, x, w, y, epilogue);
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
      note_implementation(kWinogradName);
      return winograd_grad_input(g, dy, w, dx);
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
      note_implementation(kWinogradName);
      return winograd_grad_weight(g, x, dy, dw);
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
