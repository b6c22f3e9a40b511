// Products that one thread does at once, such as attention's of one head: no split, and no allocation for each of many.
#pragma once
#include "core/storage.h"
#include "cpu/gemm/gemm_pack.h"
#include "cpu/gemm/gemm_tile.h"

namespace paddock::cpu {

// Shapes and layouts of one product, as in gemm().
template <class T>
struct SmallShape {
  bool ta, tb;
  int64_t M, N, K, lda, ldb, ldc;
  T alpha, beta;
};

// The sum is one block deep, and B stays in the second-level cache.
inline bool is_small(int64_t M, int64_t N, int64_t K) {
  return M * N * K <= (int64_t{1} << 21) && K > 0 && K <= 256 && N <= 512 && M <= 4096;
}

template <class T>
class SmallProduct {
 public:
  explicit SmallProduct(const SmallShape<T>& shape)
      : s_(shape),
        packed_(static_cast<size_t>(s_.K * kPanelWidth<T>) * sizeof(T)),
        pointers_(static_cast<size_t>(2 * s_.M) * sizeof(T*)) {
    tile_.taps = 1;
    tile_.length = s_.K;
    tile_.alpha = s_.alpha;
    tile_.beta = s_.beta;
    tile_.a_stride = s_.ta ? s_.lda : 0;
  }

  // The epilogue's matrices lie as C does; its origin is C.
  void run(const T* A, const T* B, T* C, const Epilogue<T>& epilogue) {
    const T** a = pointers_.template as<const T*>();
    T** c = pointers_.template as<T*>() + s_.M;
    for (int64_t i = 0; i < s_.M; ++i) {
      a[i] = A + i * s_.lda;  // unused with ta
      c[i] = C + i * s_.ldc;
    }
    tile_.epilogue = epilogue.empty() ? nullptr : &epilogue;
    tile_.add_residual = epilogue.residual != nullptr;
    tile_.residual_shift = epilogue.residual ? epilogue.residual - C : 0;
    for (int64_t n = 0; n < s_.N; n += kPanelWidth<T>) {
      set_panel(B, n);
      const int64_t vecs = panel_vecs<T>(s_.N, n), tiles = ceil_div(s_.M, tile_rows(vecs));
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t begin = i * s_.M / tiles, rows = (i + 1) * s_.M / tiles - begin;
        tile_.a_rows = a + begin;
        tile_.a_columns = A + begin;
        tile_.c = c + begin;
        (s_.ta ? tile_kernel_by_columns<T> : tile_kernel_by_rows<T>)(rows, vecs)(tile_);
      }
    }
  }

 private:
  // A panel that is stored as the kernel reads it stays where it is, unless its rows are so far apart that they would
  // push each other out of the first cache.
  void set_panel(const T* B, int64_t n) {
    const int64_t width = panel_vecs<T>(s_.N, n) * Vec<T>::kSize;
    tile_.column = n;
    tile_.columns = std::min(width, s_.N - n);
    if (!s_.tb && tile_.columns == width && s_.ldb <= kNear) {
      tile_.b = B + n;
      tile_.b_stride = s_.ldb;
      return;
    }
    pack_b(s_.tb, B, s_.ldb, int64_t{0}, s_.K, n, tile_.columns, packed_.template as<T>(), width);
    tile_.b = packed_.template as<T>();
    tile_.b_stride = width;
  }

  static constexpr int64_t kNear = 256;
  const SmallShape<T> s_;
  const Scratch packed_, pointers_;
  Tile<T> tile_{};
};

}  // namespace paddock::cpu
