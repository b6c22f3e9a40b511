// What inputs of 16 bits may gain: products of 16-bit numbers with 8-bit weights beside those of float32.
//
//     g++ -O3 -std=c++20 benchmarks/sixteen_bits.cc -o sixteen_bits && taskset -c 0 ./sixteen_bits
//
// A block of 6 rows and 32 columns stays in registers, the weights are packed and in the second cache. Sums of 512
// products of 15 and 7 bits fill 32 bits, so they go to 64 bits from time to time: the results are exact, and checked.
// The ways take turns; each time is the lowest fifth of 401.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

namespace {

constexpr int kRows = 6, kColumns = 32, kPanels = 8, kImages = 32, kTurns = 401, kChunk = 256;

int32_t pair_at(const int16_t* x) {
  int32_t both;
  std::memcpy(&both, x, sizeof both);
  return both;
}

// a: [6, depth], b: [depth, 32], c: [6, 32].
__attribute__((target("avx512f"))) void float32(const float* a, const float* b, float* c, int depth) {
  __m512 sum[kRows][2];
  for (auto& row : sum) row[0] = row[1] = _mm512_setzero_ps();
  for (int p = 0; p < depth; ++p) {
    const __m512 w[2] = {_mm512_loadu_ps(b + p * kColumns), _mm512_loadu_ps(b + p * kColumns + 16)};
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < 2; ++j) sum[i][j] = _mm512_fmadd_ps(_mm512_set1_ps(a[i * depth + p]), w[j], sum[i][j]);
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) _mm512_storeu_ps(c + i * kColumns + j * 16, sum[i][j]);
}

// b: [depth / 2, 32, 2].
__attribute__((target("avx512f,avx512bw,avx512vnni"))) void vnni(const int16_t* a, const int8_t* b, int64_t* c,
                                                                 int depth) {
  __m512i wide[kRows][4];
  for (auto& row : wide) std::fill(row, row + 4, _mm512_setzero_si512());
  for (int first = 0; first < depth / 2; first += kChunk) {
    __m512i sum[kRows][2];
    for (auto& row : sum) row[0] = row[1] = _mm512_setzero_si512();
    for (int p = first; p < std::min(first + kChunk, depth / 2); ++p) {
      __m512i w[2];
      for (int j = 0; j < 2; ++j)
        w[j] = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + p * 64 + j * 32)));
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < 2; ++j)
          sum[i][j] = _mm512_dpwssd_epi32(sum[i][j], _mm512_set1_epi32(pair_at(a + i * depth + 2 * p)), w[j]);
    }
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < 2; ++j) {
        const __m256i low = _mm512_castsi512_si256(sum[i][j]), high = _mm512_extracti64x4_epi64(sum[i][j], 1);
        wide[i][2 * j] = _mm512_add_epi64(wide[i][2 * j], _mm512_cvtepi32_epi64(low));
        wide[i][2 * j + 1] = _mm512_add_epi64(wide[i][2 * j + 1], _mm512_cvtepi32_epi64(high));
      }
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 4; ++j) _mm512_storeu_si512(c + i * kColumns + j * 8, wide[i][j]);
}

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(int depth) {
  std::mt19937 random(0);
  std::vector<int16_t> a(kRows * depth);
  std::vector<int8_t> b(kPanels * kColumns * depth);
  for (auto& v : a) v = static_cast<int16_t>(random() % 65535 - 32767);
  for (auto& v : b) v = static_cast<int8_t>(random() % 255 - 127);
  std::vector<float> x(a.begin(), a.end()), w(b.begin(), b.end()), y(kRows * kColumns);
  std::vector<int64_t> z(kRows * kColumns);
  vnni(a.data(), b.data(), z.data(), depth);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) {
      int64_t sum = 0;
      for (int p = 0; p < depth; ++p) sum += int64_t{a[i * depth + p]} * b[p / 2 * 64 + j * 2 + p % 2];
      if (sum != z[i * kColumns + j]) std::abort();
    }
  const std::array<std::function<void()>, 2> ways = {
      [&] {
        for (int image = 0; image < kImages; ++image)
          for (int n = 0; n < kPanels; ++n) float32(x.data(), w.data() + n * kColumns * depth, y.data(), depth);
      },
      [&] {
        for (int image = 0; image < kImages; ++image)
          for (int n = 0; n < kPanels; ++n) vnni(a.data(), b.data() + n * kColumns * depth, z.data(), depth);
      }};
  std::array<std::vector<double>, 2> times;
  for (int turn = 0; turn < kTurns; ++turn)
    for (int k = 0; k < 2; ++k) times[k].push_back(seconds(ways[k]));
  for (auto& t : times) std::nth_element(t.begin(), t.begin() + kTurns / 5, t.end());
  const double first = times[0][kTurns / 5], second = times[1][kTurns / 5];
  const double products = 1e-9 * kImages * kRows * kPanels * kColumns * depth;
  std::printf("| %d | %.0f | %.0f | %.2f |\n", depth, products / first, products / second, first / second);
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx512vnni")) return std::puts("needs AVX-512 with VNNI"), 1;
  std::puts("| depth | float32, billion products a second | 16 x 8 bits | ratio |\n| --- | --- | --- | --- |");
  for (int depth : {96, 192, 384, 576, 960}) measure(depth);
}
