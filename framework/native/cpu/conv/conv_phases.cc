// Dilated 3 x 3 convolution by Winograd's algorithm on the phases of the image.
#include "cpu/conv/conv_phases.h"

#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/winograd/winograd.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kTaskRows = 4;

// An image [N, H, W, channels] and its phases [N dil_h dil_w, rows, columns, channels]; of phases that have a row or
// column less than others, the last one is 0.
struct Phases {
  const ConvGeometry& g;
  int64_t channels;
  int64_t rows = ceil_div(g.H, g.dil_h), columns = ceil_div(g.W, g.dil_w), images = g.N * g.dil_h * g.dil_w;
  Scratch memory{static_cast<size_t>(images * rows * columns * channels) * sizeof(float)};

  float* data() { return memory.as<float>(); }

  Phases& take(const float* image) {
    const size_t pixel = static_cast<size_t>(channels) * sizeof(float);
    parallel_for(images * rows, kTaskRows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t phase = i / rows, n = phase / (g.dil_h * g.dil_w);
        const int64_t h = i % rows * g.dil_h + phase / g.dil_w % g.dil_h, first = phase % g.dil_w;
        const int64_t there = h < g.H && first < g.W ? ceil_div(g.W - first, g.dil_w) : 0;
        const float* from = image + ((n * g.H + h) * g.W + first) * channels;
        float* to = data() + i * columns * channels;
        for (int64_t j = 0; j < there; ++j) std::memcpy(to + j * channels, from + j * g.dil_w * channels, pixel);
        std::fill_n(to + there * channels, (columns - there) * channels, 0.0f);
      }
    });
    return *this;
  }

  void give(float* image) {
    const size_t pixel = static_cast<size_t>(channels) * sizeof(float);
    parallel_for(g.N * g.H, kTaskRows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / g.H, h = i % g.H;
        float* to = image + i * g.W * channels;
        for (int64_t w = 0; w < g.W; ++w) {
          const int64_t phase = (n * g.dil_h + h % g.dil_h) * g.dil_w + w % g.dil_w;
          const int64_t at = (phase * rows + h / g.dil_h) * columns + w / g.dil_w;
          std::memcpy(to + w * channels, data() + at * channels, pixel);
        }
      }
    });
  }
};

}  // namespace

bool phases_apply(const ConvGeometry& g) {
  return g.R == 3 && g.S == 3 && g.stride_h == 1 && g.stride_w == 1 && g.groups == 1 && g.dil_h * g.dil_w > 1 &&
         g.pad_top == g.dil_h && g.pad_left == g.dil_w && g.P == g.H && g.Q == g.W && g.N * g.P * g.Q > 0;
}

ConvGeometry phases_of(const ConvGeometry& g) {
  const int64_t rows = ceil_div(g.H, g.dil_h), columns = ceil_div(g.W, g.dil_w);
  ConvGeometry p{g.N * g.dil_h * g.dil_w, rows, columns, g.C, g.K, 3, 3, rows, columns};
  p.pad_top = p.pad_left = 1;
  return p;
}

void phases_forward(const ConvGeometry& g, const float* x, const float* w, float* y, const Epilogue<float>& e,
                    const Prepared& prepared) {
  Phases source{g, g.C}, target{g, g.K}, residual{g, e.residual ? g.K : 0};
  Epilogue<float> own = e;
  if (e.residual) own.residual = residual.take(e.residual).data();
  winograd_forward(phases_of(g), source.take(x).data(), w, target.data(), own, prepared);
  target.give(y);
}

void phases_grad_input(const ConvGeometry& g, const float* dy, const float* w, float* dx, const Prepared& prepared) {
  Phases source{g, g.K}, target{g, g.C};
  winograd_grad_input(phases_of(g), source.take(dy).data(), w, target.data(), prepared);
  target.give(dx);
}

void phases_grad_weight(const ConvGeometry& g, const float* x, const float* dy, float* dw) {
  Phases source{g, g.C}, gradient{g, g.K};
  winograd_grad_weight(phases_of(g), source.take(x).data(), gradient.take(dy).data(), dw);
}

}  // namespace paddock::cpu
