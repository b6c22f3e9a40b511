// Matrix times a few vectors. A task takes a block of columns of C and a slice of the sum; the slices are added in
// order, so that the result depends on the sizes only.
#include "cpu/gemm/gemm_few_rows.h"

#include <array>
#include <cstring>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/gemm/gemm_tile.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kBlockElements = 65536;  // of B in a task
constexpr int64_t kBlockSums = 4096;       // where B is stored by rows: they stay in the first cache
constexpr int64_t kTasksWanted = 16;
constexpr int64_t kLeastDepth = 128;  // of a slice

struct Split {
  int64_t blocks, slices;
};

template <class T>
Split split(const FewRowsProduct<T>& p) {
  const int64_t width = p.tb ? std::max<int64_t>(4, kBlockElements / p.K) : kBlockSums / p.M;
  const int64_t blocks = ceil_div(p.N, width);
  if (p.tb || blocks >= kTasksWanted || p.N * p.K <= kBlockElements) return {blocks, 1};
  return {blocks, std::max<int64_t>(1, std::min(ceil_div(kTasksWanted, blocks), p.K / kLeastDepth))};
}

// sums[m * N + n] = sum over k in [k0, k1) of A(m, k) B(k, n), for n0 <= n < n1.
template <class T, int kRows>
class Block {
 public:
  using V = Vec<T>;

  Block(const FewRowsProduct<T>& p, T* sums) : p_(p), sums_(sums) {}

  // B stored by columns: dot products of whole rows of both.
  void dots(int64_t n0, int64_t n1) const {
    constexpr int kTogether = kVecRegisters == 32 || kRows <= 2 ? 4 : 2;
    int64_t n = n0;
    for (; n + kTogether <= n1; n += kTogether) dot<kTogether>(n);
    for (; n < n1; ++n) dot<1>(n);
  }

  // B stored by rows: each adds to all sums, four rows at a time.
  void add_rows(int64_t n0, int64_t n1, int64_t k0, int64_t k1) const {
    for (int m = 0; m < kRows; ++m) std::fill(sums_ + m * p_.N + n0, sums_ + m * p_.N + n1, T(0));
    int64_t k = k0;
    for (; k + 4 <= k1; k += 4) add<4>(n0, n1, k);
    for (; k < k1; ++k) add<1>(n0, n1, k);
  }

 private:
  template <int kColumns>
  void dot(int64_t n) const {
    V sum[kRows][kColumns];
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) sum[m][j] = V::zero();
    const T* b = p_.B + n * p_.ldb;
    const auto step = [&](int64_t k, auto load) __attribute__((always_inline)) {
      V column[kColumns];
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) column[j] = load(b + j * p_.ldb + k);
#pragma GCC unroll 4
      for (int m = 0; m < kRows; ++m) {
        const V a = load(p_.A + m * p_.lda + k);
#pragma GCC unroll 4
        for (int j = 0; j < kColumns; ++j) sum[m][j] = fma(a, column[j], sum[m][j]);
      }
    };
    int64_t k = 0;
    for (; k + V::kSize <= p_.K; k += V::kSize) step(k, [](const T* x) { return V::load(x); });
    if (k < p_.K) step(k, [n = p_.K - k](const T* x) { return V::load_n(x, n); });
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) sums_[m * p_.N + n + j] = reduce_add(sum[m][j]);
  }

  template <int kDepth>
  void add(int64_t n0, int64_t n1, int64_t k) const {
    V a[kRows][kDepth];
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 4
      for (int i = 0; i < kDepth; ++i) a[m][i] = V::broadcast(p_.A[m * p_.lda + k + i]);
    const T* b = p_.B + k * p_.ldb;
    const auto step = [&](int64_t n, auto load, auto store) __attribute__((always_inline)) {
      V row[kDepth];
#pragma GCC unroll 4
      for (int i = 0; i < kDepth; ++i) row[i] = load(b + i * p_.ldb + n);
#pragma GCC unroll 4
      for (int m = 0; m < kRows; ++m) {
        T* to = sums_ + m * p_.N + n;
        V sum = load(to);
#pragma GCC unroll 4
        for (int i = 0; i < kDepth; ++i) sum = fma(a[m][i], row[i], sum);
        store(sum, to);
      }
    };
    int64_t n = n0;
    for (; n + V::kSize <= n1; n += V::kSize)
      step(n, [](const T* x) { return V::load(x); }, [](V x, T* to) { x.store(to); });
    if (n < n1)
      step(n, [r = n1 - n](const T* x) { return V::load_n(x, r); }, [r = n1 - n](V x, T* to) { x.store_n(to, r); });
  }

  const FewRowsProduct<T>& p_;
  T* sums_;
};

template <class T, int kRows>
void sum_all(const FewRowsProduct<T>& p, Split s, T* sums) {
  parallel_for(s.blocks * s.slices, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = i % s.blocks, slice = i / s.blocks;
      const int64_t n0 = block * p.N / s.blocks, n1 = (block + 1) * p.N / s.blocks;
      const Block<T, kRows> task(p, sums + slice * kRows * p.N);
      if (p.tb)
        task.dots(n0, n1);
      else
        task.add_rows(n0, n1, slice * p.K / s.slices, (slice + 1) * p.K / s.slices);
    }
  });
}

}  // namespace

template <class T>
void multiply_few_rows(const FewRowsProduct<T>& p) {
  const Split s = split(p);
  const Scratch scratch(static_cast<size_t>(s.slices * p.M * p.N) * sizeof(T));
  T* sums = scratch.as<T>();
  constexpr std::array<void (*)(const FewRowsProduct<T>&, Split, T*), kFewRows> by_rows{sum_all<T, 1>, sum_all<T, 2>,
                                                                                        sum_all<T, 3>, sum_all<T, 4>};
  by_rows[static_cast<size_t>(p.M - 1)](p, s, sums);
  for (int64_t i = 1; i < s.slices; ++i) {
    const T* next = sums + i * p.M * p.N;
    for (int64_t n = 0; n < p.M * p.N; ++n) sums[n] += next[n];
  }
  const Epilogue<T>* epilogue = p.epilogue.empty() ? nullptr : &p.epilogue;
  const int64_t shift = p.epilogue.residual ? p.epilogue.residual - p.C : 0;
  for (int64_t m = 0; m < p.M; ++m)
    finish_row(sums + m * p.N, p.C + m * p.ldc, int64_t{0}, p.N, p.alpha, p.beta, epilogue, shift);
}

template void multiply_few_rows<float>(const FewRowsProduct<float>&);
template void multiply_few_rows<double>(const FewRowsProduct<double>&);

}  // namespace paddock::cpu
