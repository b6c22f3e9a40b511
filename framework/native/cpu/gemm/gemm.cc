// Matrix products: which of the two loops a shape takes, and batches of them.
#include "cpu/gemm/gemm.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/gemm/gemm_driver.h"
#include "cpu/gemm/gemm_few_rows.h"
#include "cpu/gemm/gemm_pack.h"
#include "cpu/gemm/gemm_small.h"
#include "cpu/vec/stream.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kPackedBytes = 64 << 20;  // most memory for a packed B; a wider B goes in column chunks

template <class T>
struct Product {
  bool ta, tb;
  int64_t M, N, K;
  T alpha;
  const T* A;
  int64_t lda;
  const T* B;
  int64_t ldb;
  T beta;
  T* C;
  int64_t ldc;
  Epilogue<T> epilogue;
  const Prepared& prepared;
};

// A's rows are read in place and B is packed once, columns [n0, n0 + N) of it.
template <class T>
void by_rows(const Product<T>& g, int64_t n0, int64_t N) {
  const auto packed = g.prepared.block(
      cat("panels from column ", n0), packed_size<T>(g.K, N) * static_cast<int64_t>(sizeof(T)),
      [&](void* panels) { pack_all(g.tb, g.B + (g.tb ? n0 * g.ldb : n0), g.ldb, g.K, N, static_cast<T*>(panels)); });
  const auto rows_at = [&](int64_t begin, int64_t rows, const T** a, T** c, T*) {
    for (int64_t i = 0; i < rows; ++i) {
      a[i] = g.A + (begin + i) * g.lda;
      c[i] = g.C + (begin + i) * g.ldc + n0;
    }
  };
  RowsProduct<T> p{g.M, N, 1, g.K, static_cast<const T*>(packed->data()), rows_at};
  p.stream = worth_streaming(g.C + n0, g.ldc * int64_t{sizeof(T)}, g.M);
  p.alpha = g.alpha;
  p.beta = g.beta;
  p.epilogue = g.epilogue;
  if (p.epilogue.bias) p.epilogue.bias += n0;
  if (p.epilogue.residual) p.residual_shift = p.epilogue.residual - g.C;
  multiply_rows(p);
}

// A is stored as [K, M]: its rows are written out once, and B is packed once. Blocks of C would pack both again each.
template <class T>
void by_rows_of_copy(const Product<T>& g) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T)), kSide = 64;
  const int64_t stride = (ceil_div(g.K, kLine) | 1) * kLine;  // rows in other cache sets
  const Scratch memory(static_cast<size_t>(g.M * stride) * sizeof(T));
  T* rows = memory.as<T>();
  const int64_t bands = ceil_div(g.M, kSide);
  parallel_for(bands * ceil_div(g.K, kSide), 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t m0 = i % bands * kSide, k0 = i / bands * kSide;
      const int64_t depth = std::min(kSide, g.K - k0);
      copy_transposed(g.A + k0 * g.lda + m0, g.lda, std::min(kSide, g.M - m0), depth, rows + m0 * stride + k0,
                      packed_size<T>(1, depth), stride);
    }
  });
  Product<T> copied = g;
  copied.ta = false;
  copied.A = rows;
  copied.lda = stride;
  by_rows(copied, int64_t{0}, g.N);
}

// Where the copy pays. It was measured with 16 registers alone.
template <class T>
bool worth_copying(const Product<T>& g) {
  const int64_t most = kPackedBytes / static_cast<int64_t>(sizeof(T));
  return kVecRegisters == 16 && g.ta && g.M >= 128 && g.N >= 256 && g.K >= 256 && g.M * g.K <= most &&
         g.N * g.K <= most;
}

template <class T>
void by_blocks(const Product<T>& g) {
  multiply_blocks<T>({g.M, g.N, g.K,
                      [&](int64_t m0, int64_t rows, int64_t k0, int64_t depth, T* dst, int64_t stride) {
                        const int64_t width = packed_size<T>(1, rows);
                        if (g.ta)
                          copy_rows(g.A + k0 * g.lda + m0, g.lda, depth, rows, dst, width, stride);
                        else
                          copy_transposed(g.A + m0 * g.lda + k0, g.lda, depth, rows, dst, width, stride);
                      },
                      [&](int64_t k0, int64_t depth, int64_t n0, int64_t columns, T* dst, int64_t width) {
                        pack_b(g.tb, g.B, g.ldb, k0, depth, n0, columns, dst, width);
                      },
                      g.C, g.ldc, g.alpha, g.beta, g.epilogue, g.ta ? Source<T>{g.A, g.lda, g.M} : Source<T>{},
                      g.tb ? Source<T>{} : Source<T>{g.B, g.ldb, g.N}});
}

// Few rows: all of B is needed for little work, so that even a copy of it would cost more than the product.
bool has_few_rows(int64_t M, int64_t N, int64_t K) { return M > 0 && M <= kFewRows && N >= 64 && K > 0; }

template <class T>
void by_few_rows(const Product<T>& g) {
  const Scratch rows(g.ta ? static_cast<size_t>(g.M * g.K) * sizeof(T) : 1);
  for (int64_t m = 0; g.ta && m < g.M; ++m)
    for (int64_t k = 0; k < g.K; ++k) rows.as<T>()[m * g.K + k] = g.A[k * g.lda + m];
  const T* A = g.ta ? rows.as<T>() : g.A;
  multiply_few_rows<T>(
      {g.tb, g.M, g.N, g.K, A, g.ta ? g.K : g.lda, g.B, g.ldb, g.alpha, g.beta, g.C, g.ldc, g.epilogue});
}

// Too few elements of C to share among threads, each a long sum.
bool is_deep(int64_t M, int64_t N, int64_t K) { return M * N <= 256 * 256 && K >= 8 * std::max(M, N) && K >= 2048; }

}  // namespace

template <class T>
void gemm(bool ta, bool tb, int64_t M, int64_t N, int64_t K, T alpha, const T* A, int64_t lda, const T* B, int64_t ldb,
          T beta, T* C, int64_t ldc, const Epilogue<T>& epilogue, const Prepared& prepared) {
  Product<T> g{ta, tb, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc, epilogue, prepared};
  g.epilogue.origin = C;
  if (has_few_rows(M, N, K)) return by_few_rows(g);
  if (is_small(M, N, K) && !prepared.keeps())
    return SmallProduct<T>({ta, tb, M, N, K, lda, ldb, ldc, alpha, beta}).run(A, B, C, g.epilogue);
  if (is_deep(M, N, K) || K == 0) return by_blocks(g);
  if (worth_copying(g)) return by_rows_of_copy(g);
  if (ta) return by_blocks(g);
  const int64_t width = kPanelWidth<T>;
  const int64_t chunk = std::max<int64_t>(1, kPackedBytes / (static_cast<int64_t>(sizeof(T)) * K * width)) * width;
  for (int64_t n0 = 0; n0 < N; n0 += chunk) by_rows(g, n0, std::min(chunk, N - n0));
}

template <class T>
void batched_gemm(int64_t batch, bool ta, bool tb, int64_t M, int64_t N, int64_t K, T alpha, const T* A, int64_t lda,
                  int64_t stride_a, const T* B, int64_t ldb, int64_t stride_b, T beta, T* C, int64_t ldc,
                  int64_t stride_c, const Epilogue<T>& epilogue) {
  // Many small products share the threads one by one, few large ones each use all threads.
  const int64_t work = std::max<int64_t>(1, M * N * K);
  const int64_t grain = work >= (int64_t{1} << 26) || batch < 8 ? batch : std::max<int64_t>(1, (1 << 20) / work);
  if (is_small(M, N, K))
    return parallel_for(batch, std::max<int64_t>(1, (1 << 20) / work), [&](int64_t begin, int64_t end) {
      SmallProduct<T> product({ta, tb, M, N, K, lda, ldb, ldc, alpha, beta});
      for (int64_t i = begin; i < end; ++i) {
        Epilogue<T> e = epilogue.moved(i * stride_c);
        e.origin = C + i * stride_c;
        product.run(A + i * stride_a, B + i * stride_b, C + i * stride_c, e);
      }
    });
  parallel_for(batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      gemm(ta, tb, M, N, K, alpha, A + i * stride_a, lda, B + i * stride_b, ldb, beta, C + i * stride_c, ldc,
           epilogue.moved(i * stride_c));
    }
  });
}

#define PADDOCK_INSTANTIATE(T)                                                                                 \
  template void gemm<T>(bool, bool, int64_t, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T, T*, \
                        int64_t, const Epilogue<T>&, const Prepared&);                                         \
  template void batched_gemm<T>(int64_t, bool, bool, int64_t, int64_t, int64_t, T, const T*, int64_t, int64_t, \
                                const T*, int64_t, int64_t, T, T*, int64_t, int64_t, const Epilogue<T>&);
PADDOCK_INSTANTIATE(float)
PADDOCK_INSTANTIATE(double)
#undef PADDOCK_INSTANTIATE

}  // namespace paddock::cpu
