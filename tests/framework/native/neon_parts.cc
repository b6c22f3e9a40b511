// Run by test_neon.py under emulation: the parts of the kernels that are written for NEON against plain loops. Prints a
// line for each part that is wrong.
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "cpu/gemm/int8_dot.h"
#include "cpu/gemm/neon_tile.h"
#include "cpu/vec/vec_half.h"
#include "cpu/vec/vec_int.h"

using namespace paddock;
using namespace paddock::cpu;

namespace {

int wrong = 0;

void check(bool right, const char* what, int a = 0, int b = 0) {
  if (right) return;
  std::printf("%s is wrong (%d, %d)\n", what, a, b);
  ++wrong;
}

bool same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

std::mt19937 numbers(1);

std::vector<float> values(size_t n) {
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& x : v) x = normal(numbers);
  return v;
}

template <int kRows>
void tile() {
  for (int steps = 0; steps < 14; ++steps) {
    const auto a = values(kRows * 20 + kNeonTileColumn * 14), b = values(kNeonTileWidth * 14);
    const auto start = values(kRows * kNeonTileWidth);
    const float* rows[kRows];
    for (int i = 0; i < kRows; ++i) rows[i] = a.data() + i * 20;
    for (const bool columns : {false, true}) {
      Vec<float> sums[kRows * kNeonTileVecs];
      for (size_t i = 0; i < std::size(sums); ++i) sums[i] = Vec<float>::load(start.data() + i * 4);
      if (columns)
        neon_tile_by_columns<kRows>(sums, a.data(), b.data(), steps, b.data(), 64);
      else
        neon_tile_by_rows<kRows>(sums, rows, 3, b.data(), steps, b.data(), 64);
      bool right = true;
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kNeonTileWidth; ++j) {
          float sum = start[static_cast<size_t>(i * kNeonTileWidth + j)];
          for (int k = 0; k < steps; ++k)
            sum = std::fma(columns ? a[static_cast<size_t>(k * kNeonTileColumn + i)] : rows[i][3 + k],
                           b[static_cast<size_t>(k * kNeonTileWidth + j)], sum);
          right = right && same(sum, sums[i * kNeonTileVecs + j / 4][j % 4]);
        }
      check(right, columns ? "tile by columns" : "tile by rows", kRows, steps);
    }
  }
}

template <class D>
void dot(const char* name) {
  using Row = typename D::Row;
  for (int turn = 0; turn < 50; ++turn) {
    int8_t weights[4 * D::kGroup];  // [column][group]
    Row a[D::kGroup];
    const auto any = [&](auto& x, int low, int high) {
      x = static_cast<std::remove_reference_t<decltype(x)>>(low + static_cast<int>(numbers() % (high - low + 1)));
      if (turn < 4) x = static_cast<std::remove_reference_t<decltype(x)>>(turn & 1 ? low : high);
    };
    const int low = std::is_same_v<Row, int8_t> ? -127 : 0, high = std::is_same_v<Row, int8_t> ? 127 : 255;
    for (auto& w : weights) any(w, -128, 127);
    for (auto& x : a) any(x, low, high);
    Int32s start;
    for (int l = 0; l < 4; ++l) start[l] = static_cast<int32_t>(numbers() % 1000) - 500;
    int32_t packed;
    std::memcpy(&packed, a, 4);
    const Int32s by_tile = D::add(start, D::same(packed), D::weights(weights));
    for (int l = 0; l < 4; ++l) {
      int32_t sum = start[l];
      for (int i = 0; i < D::kGroup; ++i) sum += (a[i] - D::kTaken) * weights[l * D::kGroup + i];
      check(by_tile[l] == sum, name, turn, l);
    }
    if constexpr (requires(const Bytes(&rows)[D::kGroup], Int32s(&to)[4]) { D::groups(rows, to); }) {
      Bytes rows[D::kGroup];
      for (auto& row : rows)
        for (int l = 0; l < 16; ++l) row[l] = static_cast<uint8_t>(turn == 0 ? 255 : numbers());
      Int32s groups[4], sums[4];
      D::groups(rows, groups);
      for (int v = 0; v < 4; ++v) sums[v] = D::add(start, groups[v], D::weights(weights));
      for (int v = 0; v < 4; ++v)
        for (int l = 0; l < 4; ++l) {
          int32_t sum = start[l];
          for (int i = 0; i < D::kGroup; ++i) sum += (rows[i][4 * v + l] - D::kTaken) * weights[l * D::kGroup + i];
          check(sums[v][l] == sum, name, turn, 100 + 4 * v + l);
        }
      const Int32s bytes[4] = {groups[0] & 255, groups[1] & 255, groups[2] & 255, groups[3] & 255};
      const Bytes together = packed_bytes(bytes);
      for (int i = 0; i < 16; ++i) check(together[i] == bytes[i / 4][i % 4], "packed_bytes", i);
    }
    if constexpr (requires(const Bytes(&rows)[D::kGroup], Int32s(&to)[2]) { D::groups_of_words(rows, to); }) {
      int16_t channels[D::kGroup][8];
      for (auto& row : channels)
        for (auto& x : row) any(x, -32767, 32767);
      Bytes rows[D::kGroup];
      std::memcpy(rows, channels, sizeof rows);
      Int32s groups[2], sums[2];
      D::groups_of_words(rows, groups);
      for (int v = 0; v < 2; ++v) sums[v] = D::add(start, groups[v], D::weights(weights));
      const Int32s ordered[] = {in_order<0>(sums), in_order<1>(sums)};
      for (int c = 0; c < 8; ++c) {
        int32_t sum = start[c % 4];
        for (int i = 0; i < D::kGroup; ++i) sum += channels[i][c] * weights[c % 4 * D::kGroup + i];
        check(ordered[c / 4][c % 4] == sum, "sums of words", turn, c);
      }
    }
  }
}

void vectors() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const float edges[] = {kNan, -kInf, -1.5f, -0.0f, 0.0f, 1e-42f, 2.0f, kInf};
  for (float a : edges)
    for (float b : edges) {
      const auto x = Vec<float>::broadcast(a), y = Vec<float>::broadcast(b);
      check(same(min(x, y)[1], a < b ? a : b), "min");
      check(same(max(x, y)[2], a > b ? a : b), "max");
    }
  const auto v = values(64);
  for (int n = 0; n <= 4; ++n) {
    float stored[4] = {9, 9, 9, 9};
    const auto part = Vec<float>::load_n(v.data(), n);
    Vec<float>::load(v.data() + 4).store_n(stored, n);
    for (int i = 0; i < 4; ++i) {
      check(same(part[i], i < n ? v[static_cast<size_t>(i)] : 0.0f), "load_n", n, i);
      check(same(stored[i], i < n ? v[static_cast<size_t>(4 + i)] : 9.0f), "store_n", n, i);
    }
  }
  for (int i = 0; i < 60; ++i) {
    const float x = v[static_cast<size_t>(i)] * v[static_cast<size_t>(i)];
    check(same(sqrt(Vec<float>::broadcast(x))[3], std::sqrt(x)), "sqrt");
    check(sqrt(Vec<double>::broadcast(x))[1] == std::sqrt(double{x}), "sqrt of double");
  }
  Vec<float> square[4];
  for (int i = 0; i < 4; ++i) square[i] = Vec<float>::load(v.data() + 4 * i);
  transpose(square);
  for (size_t i = 0; i < 16; ++i) check(same(square[i % 4][static_cast<int>(i / 4)], v[i]), "transpose");
  check(same(reduce_add(Vec<float>::load(v.data())), (v[0] + v[2]) + (v[1] + v[3])), "reduce_add");
}

template <class H>
void half(const char* name) {
  for (uint32_t bits = 0; bits < 65536; bits += 4) {
    H in[4], out[4];
    for (uint32_t i = 0; i < 4; ++i) in[i].bits = static_cast<uint16_t>(bits + i);
    const Vec<float> wide = widen(in);
    narrow(wide, out);
    for (int i = 0; i < 4; ++i) {
      const float exact = static_cast<float>(in[i]);
      if (exact != exact)
        check(wide[i] != wide[i] && static_cast<float>(out[i]) != static_cast<float>(out[i]), name, in[i].bits);
      else
        check(same(wide[i], exact) && out[i].bits == in[i].bits, name, in[i].bits);
    }
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4 * 0xfff1) {
    float x[4];
    H out[4];
    for (uint32_t i = 0; i < 4; ++i) x[i] = std::bit_cast<float>(static_cast<uint32_t>(bits + i * 0x1fff));
    narrow(Vec<float>::load(x), out);
    for (int i = 0; i < 4; ++i) check(x[i] != x[i] || out[i].bits == H(x[i]).bits, name, static_cast<int>(bits), i);
  }
}

void words() {
  uint32_t in[16], high[16], low[16];
  for (uint32_t& x : in) x = static_cast<uint32_t>(numbers());
  Words16 upper, lower;
  multiply_wide(Words16::load(in), 0xD2511F53u, upper, lower);
  upper.store(high);
  lower.store(low);
  for (int i = 0; i < 16; ++i)
    check((uint64_t{high[i]} << 32 | low[i]) == uint64_t{in[i]} * 0xD2511F53u, "multiply_wide", i);
  const int8_t bytes[] = {-128, 127, 0, -1};
  for (int i = 0; i < 4; ++i) check(load_bytes(bytes)[i] == static_cast<float>(bytes[i]), "load_bytes", i);
}

}  // namespace

int main() {
  tile<1>();
  tile<2>();
  tile<3>();
  tile<4>();
  tile<5>();
  tile<6>();
  dot<WideningDot>("16-bit products");
  if (has_byte_dot()) {
    dot<MatrixDot>("dot products of rows");
    dot<ImageDot>("dot products of images");
  }
  vectors();
  half<Float16>("float16");
  half<BFloat16>("bfloat16");
  words();
  std::printf("%s dot products; %d wrong\n", has_byte_dot() ? "with" : "without", wrong);
  return wrong != 0;
}
