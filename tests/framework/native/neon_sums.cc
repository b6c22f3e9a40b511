// Run by test_neon.py under emulation: random convolutions and products in 8 and 16 bits against plain loops. Prints a
// line for each that is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "cpu/gemm/int8_dot.h"
#include "cpu/gemm/int8_product.h"
#include "cpu/quantized/conv_int8.h"

namespace paddock {

std::string active_isa() { return "neon"; }

}  // namespace paddock

using namespace paddock;
using namespace paddock::cpu;

namespace {

constexpr int kTurns = 400;
constexpr int64_t kRoom = 64;  // behind factors and biases

std::mt19937 numbers(5);

int64_t any(int64_t low, int64_t high) { return low + static_cast<int64_t>(numbers() % (high - low + 1)); }

int64_t pick(std::initializer_list<int64_t> v) { return v.begin()[numbers() % v.size()]; }

std::vector<int8_t> weights(int64_t n, int low) {
  std::vector<int8_t> w(static_cast<size_t>(n));
  for (auto& v : w) v = static_cast<int8_t>(numbers() % 9 == 0 ? low : any(low, 127));
  return w;
}

// Values in quarters of a step of 1/2, so that some lie between two whole numbers.
std::vector<float> values(int64_t n, int64_t most) {
  std::vector<float> x(static_cast<size_t>(n));
  for (auto& v : x) v = static_cast<float>(any(-most, most)) * 0.5f + (numbers() % 3 ? 0.0f : 0.25f);
  return x;
}

int64_t rounded_to(float v, int64_t most) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(v)), -most, most);
}

ConvGeometry geometry(bool depthwise) {
  ConvGeometry g{};
  g.N = pick({1, 2});
  g.H = pick({3, 5, 9});
  g.W = pick({3, 4, 11});
  g.R = pick({1, 2, 3});
  g.S = pick({1, 2, 3});
  g.groups = depthwise ? pick({1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64}) : pick({1, 1, 2});
  g.C = g.groups * (depthwise ? 1 : pick({1, 2, 3, 4, 8, 17}));
  g.K = g.groups * (depthwise ? 1 : pick({1, 3, 16, 17}));
  g.stride_h = pick({1, 2});
  g.stride_w = pick({1, 2, 3});
  g.dil_h = pick({1, 1, 2});
  g.dil_w = pick({1, 1, 2});
  g.pad_top = pick({0, 1, 2});
  g.pad_left = pick({0, 1, 2});
  const int64_t free_h = g.H + g.pad_top + pick({1, 2}) - (g.R - 1) * g.dil_h - 1;
  const int64_t free_w = g.W + g.pad_left + pick({1, 2}) - (g.S - 1) * g.dil_w - 1;
  g.P = free_h < 0 ? 0 : free_h / g.stride_h + 1;
  g.Q = free_w < 0 ? 0 : free_w / g.stride_w + 1;
  return g;
}

// Sums of all numbers of the result, from `x` less what stands for 0.
std::vector<int32_t> plain_sums(const ConvGeometry& g, const std::vector<int64_t>& x, const std::vector<int8_t>& w) {
  const int64_t depth = g.C / g.groups, filters = g.K / g.groups;
  std::vector<int32_t> sums;
  for (int64_t n = 0; n < g.N; ++n)
    for (int64_t p = 0; p < g.P; ++p)
      for (int64_t q = 0; q < g.Q; ++q)
        for (int64_t k = 0; k < g.K; ++k) {
          int64_t sum = 0;
          for (int64_t r = 0; r < g.R; ++r)
            for (int64_t s = 0; s < g.S; ++s) {
              const int64_t h = p * g.stride_h - g.pad_top + r * g.dil_h, v = q * g.stride_w - g.pad_left + s * g.dil_w;
              if (h < 0 || v < 0 || h >= g.H || v >= g.W) continue;
              for (int64_t c = 0; c < depth; ++c)
                sum += x[static_cast<size_t>(((n * g.H + h) * g.W + v) * g.C + k / filters * depth + c)] *
                       w[static_cast<size_t>(((k * g.R + r) * g.S + s) * depth + c)];
            }
          sums.push_back(static_cast<int32_t>(sum));
        }
  return sums;
}

// What docs/howto/quantization.md says of a sum on its way to memory. Not contracted: the file is compiled so.
float ended(const Requantize& r, int32_t sum, int64_t channel, size_t at) {
  float v = static_cast<float>(sum) * r.factor[channel];
  v = v + r.bias[channel];
  const float residual =
      r.residual8 ? (static_cast<float>(r.residual8[at]) - static_cast<float>(r.residual_zero)) * r.residual_factor
                  : 0.0f;
  if (r.residual8 && !r.residual_last) v = v + residual;
  if (r.activation == Activation::kLeakyRelu && v < 0) v = v * r.slope;
  if (r.activation == Activation::kRelu || r.activation == Activation::kRelu6) v = v < 0 ? 0 : v;
  if (r.activation == Activation::kRelu6) v = std::min(v, r.six);
  return r.residual8 && r.residual_last ? v + residual : v;
}

bool convolution(int turn, bool depthwise, bool words) {
  Int8Conv c{};
  c.g = geometry(depthwise);
  const auto& g = c.g;
  if (g.P == 0 || g.Q == 0) return true;
  const int64_t pixels = g.N * g.H * g.W * g.C, results = g.N * g.P * g.Q * g.K;
  std::vector<uint8_t> bytes(static_cast<size_t>(pixels));
  for (auto& v : bytes) v = static_cast<uint8_t>(numbers() % 11 == 0 ? 255 : any(0, 255));
  const auto floats = values(pixels, 32767);
  const auto w = weights(g.K * g.R * g.S * (g.C / g.groups), -128);
  c.x = bytes.data();
  c.x_zero = words ? 0 : static_cast<int32_t>(any(0, 255));
  c.weight = w.data();
  c.algorithm = static_cast<Int8Algorithm>(turn % 3);
  c.x32 = words ? floats.data() : nullptr;
  c.x_scale = 0.5f;
  c.x_most = words ? 20000 : 0;
  std::vector<int64_t> x(bytes.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = words ? rounded_to(floats[i] / 0.5f, c.x_most) : bytes[i] - c.x_zero;

  std::vector<float> factor(static_cast<size_t>(g.K + kRoom)), bias(factor.size());
  for (auto& v : factor) v = (words ? 1e-6f : 1e-3f) * static_cast<float>(any(1, 50));
  for (auto& v : bias) v = static_cast<float>(any(-100, 100)) * 0.37f;
  std::vector<int32_t> sums(static_cast<size_t>(results), 77);
  std::vector<uint8_t> y8(sums.size(), 7), residual(sums.size());
  std::vector<float> y32(sums.size());
  for (auto& v : residual) v = static_cast<uint8_t>(any(0, 255));
  auto& end = c.end;
  end.factor = factor.data();
  end.bias = bias.data();
  const int kind = turn % 5 % 3;
  if (kind == 0) end.sums = sums.data();
  if (kind == 1) end.y8 = y8.data(), end.zero = 90;
  if (kind == 2) end.y32 = y32.data();
  if (kind != 0) {
    constexpr Activation kinds[] = {Activation::kNone, Activation::kRelu, Activation::kRelu6, Activation::kLeakyRelu};
    end.activation = kinds[any(0, 3)];
    end.slope = 0.1f;
    end.six = 60;
  }
  if (kind != 0 && any(0, 2) == 0) {
    end.residual8 = residual.data();
    end.residual_zero = 30;
    end.residual_factor = 0.7f;
    end.residual_last = any(0, 1) == 1;
  }
  conv2d_int8(c);

  const auto right = plain_sums(g, x, w);
  for (size_t i = 0; i < right.size(); ++i) {
    const float v = ended(end, right[i], static_cast<int64_t>(i) % g.K, i);
    if (kind == 0 && sums[i] != right[i]) return false;
    if (kind == 1 && y8[i] != static_cast<uint8_t>(std::nearbyint(std::clamp(v, -90.0f, 165.0f)) + 90)) return false;
    if (kind == 2 && y32[i] != v) return false;
  }
  return true;
}

// Rows of one scale, and (dynamic) of one each.
bool product(int turn, bool words) {
  Int8Product p{};
  p.M = pick({1, 2, 3, 5, 6, 7, 13, 33});
  p.N = pick({1, 3, 4, 5, 8, 15, 16, 17, 33, 64});
  p.K = pick({1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 64, 129});
  p.x_most = words ? 20000 : 127;
  p.x_scale = turn % 2 ? 0.5f : 0.0f;
  p.widening = turn % 3 == 0;
  const auto x = values(p.M * p.K, words ? 32767 : 160);
  const auto w = weights(p.N * p.K, -127);
  std::vector<float> scales(static_cast<size_t>(p.N)), y(static_cast<size_t>(p.M * p.N));
  for (auto& v : scales) v = 0.01f * static_cast<float>(any(1, 50));
  p.x = x.data();
  p.weight = w.data();
  p.weight_scale = scales.data();
  p.y = y.data();
  multiply_int8(p, Prepared{});

  for (int64_t m = 0; m < p.M; ++m) {
    const float* row = x.data() + m * p.K;
    float largest = 0;
    for (int64_t k = 0; k < p.K; ++k) largest = std::max(largest, std::abs(row[k]));
    const float most = static_cast<float>(p.x_most);
    const float scale = p.x_scale > 0 ? p.x_scale : largest / most;
    const float factor = p.x_scale > 0 ? 1 / p.x_scale : most / largest;
    for (int64_t n = 0; n < p.N; ++n) {
      int64_t sum = 0;
      for (int64_t k = 0; k < p.K && largest > 0; ++k)
        sum += rounded_to(row[k] * factor, p.x_most) * w[static_cast<size_t>(n * p.K + k)];
      const float v = static_cast<float>(sum) * scale * scales[static_cast<size_t>(n)];
      if (y[static_cast<size_t>(m * p.N + n)] != v) return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  int wrong = 0;
  const auto check = [&](bool right, const char* what, int turn) {
    if (!right) std::printf("turn %d: %s is wrong\n", turn, what), ++wrong;
  };
  for (int turn = 0; turn < kTurns; ++turn)
    for (const bool words : {false, true}) {
      check(convolution(turn, false, words), words ? "a convolution of 16 bits" : "a convolution", turn);
      check(convolution(turn, true, words), words ? "a depthwise one of 16 bits" : "a depthwise one", turn);
      check(product(turn, words), words ? "a product of 16 bits" : "a product", turn);
    }
  std::printf("%s dot products; %d wrong\n", has_byte_dot() ? "with" : "without", wrong);
  return wrong != 0;
}
