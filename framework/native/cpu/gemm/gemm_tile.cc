// The tile kernels, one instance a tile shape, and the epilogue.
#include "cpu/gemm/gemm_tile.h"

#include <array>

#include "cpu/gemm/neon_tile.h"
#include "cpu/vec/stream.h"

namespace paddock::cpu {
namespace {

// Moves `n` values, past the caches if asked to: what is then left over of a vector is not.
template <class T>
void put(const T* from, T* to, int64_t n, bool past_caches) {
  const int64_t whole = past_caches ? n / Vec<T>::kSize * Vec<T>::kSize : 0;
  for (int64_t j = 0; j < whole; j += Vec<T>::kSize) stream(Vec<T>::load(from + j), to + j);
  std::copy(from + whole, from + n, to + whole);
}

// The epilogue's loop over a tile's values [rows, width], which then go to C. It runs once for all of them: its
// constants take as long to load as a row to compute.
template <class T>
void run_loop(const Tile<T>& t, int rows, int64_t width, T* values) {
  const Epilogue<T>& e = *t.epilogue;
  const auto place = [&](int i) { return t.c[i] + t.column - e.origin; };
  alignas(kVecBytes) T operand[kMaxTileVecs * Vec<T>::kSize];
  for (int i = 0; i < rows; ++i) {
    if (e.operand) {
      std::copy_n(e.operand + place(i), t.columns, operand + i * width);
      std::fill(operand + i * width + t.columns, operand + (i + 1) * width, T(0));
    }
  }
  const void* in[] = {values, operand};
  e.loop.run(in, values, rows * width, &e.loop.attr);
  for (int i = 0; i < rows; ++i) put(values + i * width, t.c[i] + t.column, t.columns, t.stream);
}

// The way of a tile's sums from registers to memory. Everything is unrolled: one loop left over and the compiler keeps
// the sums in memory from the start.
template <class T, int kRows, int kVecs>
class Outcome {
 public:
  using V = Vec<T>;
  using Sums = V[kRows][kVecs];

  static PADDOCK_INLINE void store(Sums& sum, const Tile<T>& t) {
    const int64_t lanes = t.columns - (kVecs - 1) * V::kSize;  // of the last vector
    if (lanes == V::kSize)
      store_lanes<true>(sum, t, lanes);
    else
      store_lanes<false>(sum, t, lanes);
  }

 private:
  template <bool kWhole>
  static PADDOCK_INLINE void store_lanes(Sums& sum, const Tile<T>& t, int64_t lanes) {
    if (t.alpha != T(1)) scale(sum, V::broadcast(t.alpha));
    if (t.beta == T(1))
      add<kWhole>(sum, t, 0, lanes);
    else if (t.beta != T(0))
      add_scaled<kWhole>(sum, t, lanes);
    if (t.add_residual) add<kWhole>(sum, t, t.residual_shift, lanes);
    if (t.epilogue) {
      if (t.epilogue->bias) add_bias<kWhole>(sum, t.epilogue->bias + t.column, lanes);
      if (t.epilogue->activation != Activation::kNone) apply(sum, *t.epilogue);
      if (t.epilogue->residual_last) add<kWhole>(sum, t, t.residual_shift, lanes);
      if (t.epilogue->loop) return store_by_loop(sum, t);
    }
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) {
        T* c = t.c[i] + t.column + j * V::kSize;
        if (kWhole && t.stream)
          stream(sum[i][j], c);
        else if (kWhole || j + 1 < kVecs)
          sum[i][j].store(c);
        else
          sum[i][j].store_n(c, lanes);
      }
  }

  static PADDOCK_INLINE void store_by_loop(Sums& sum, const Tile<T>& t) {
    alignas(kVecBytes) T values[kRows * kVecs * V::kSize];
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) sum[i][j].store(values + (i * kVecs + j) * V::kSize);
    run_loop(t, kRows, kVecs * V::kSize, values);
  }

  template <bool kWhole>
  static PADDOCK_INLINE V load(const T* p, int j, int64_t lanes) {
    return kWhole || j + 1 < kVecs ? V::load(p + j * V::kSize) : V::load_n(p + j * V::kSize, lanes);
  }

  static PADDOCK_INLINE void scale(Sums& sum, V factor) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) sum[i][j] *= factor;
  }

  // What lies `shift` elements from C.
  template <bool kWhole>
  static PADDOCK_INLINE void add(Sums& sum, const Tile<T>& t, int64_t shift, int64_t lanes) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) sum[i][j] += load<kWhole>(t.c[i] + t.column + shift, j, lanes);
  }

  template <bool kWhole>
  static PADDOCK_INLINE void add_scaled(Sums& sum, const Tile<T>& t, int64_t lanes) {
    const V beta = V::broadcast(t.beta);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) sum[i][j] = fma(load<kWhole>(t.c[i] + t.column, j, lanes), beta, sum[i][j]);
  }

  template <bool kWhole>
  static PADDOCK_INLINE void add_bias(Sums& sum, const T* bias, int64_t lanes) {
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) {
      const V b = load<kWhole>(bias, j, lanes);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) sum[i][j] += b;
    }
  }

  static PADDOCK_INLINE void apply(Sums& sum, const Epilogue<T>& e) {
    with_activation(e, [&](auto activation) __attribute__((always_inline)) {
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < kVecs; ++j) sum[i][j] = activation(sum[i][j]);
    });
  }
};

// One step of the sum: kRows values of A, each times a row of the panel.
template <class T, int kRows, int kVecs, class ValueOfA>
PADDOCK_INLINE void step(Vec<T> (&sum)[kRows][kVecs], const T* b, ValueOfA a) {
  using V = Vec<T>;
  V row[kVecs];
#pragma GCC unroll 4
  for (int j = 0; j < kVecs; ++j) row[j] = V::load(b + j * V::kSize);
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    V x = V::broadcast(a(i));
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) sum[i][j] = fma(x, row[j], sum[i][j]);
  }
}

template <class T, int kRows, int kVecs>
PADDOCK_INLINE void clear(Vec<T> (&sum)[kRows][kVecs]) {
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) sum[i][j] = Vec<T>::zero();
}

#if defined(PADDOCK_NEON_TILE)
// Calls loop(memory), which adds up the tile's sums there, and takes them into registers.
template <int kRows, class Loop>
PADDOCK_INLINE void through_memory(Vec<float> (&sum)[kRows][kNeonTileVecs], Loop loop) {
  Vec<float> memory[kRows * kNeonTileVecs];
#pragma GCC unroll 24
  for (Vec<float>& v : memory) v = Vec<float>::zero();
  loop(memory);
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kNeonTileVecs; ++j) sum[i][j] = memory[i * kNeonTileVecs + j];
}
#endif

template <class T, int kRows, int kVecs>
void by_rows(const Tile<T>& t) {
  Vec<T> sum[kRows][kVecs];
  clear(sum);
  const T* b = t.b;
  const int64_t b_stride = t.b_stride, length = t.length;
  // Without a wish it asks for what is there: the address 0 would cost a walk through the page tables each time.
  const T* fetch = t.fetch ? t.fetch : t.b;
  const int64_t fetch_stride = t.fetch ? t.fetch_stride : 0;
#if defined(PADDOCK_NEON_TILE)
  if constexpr (std::is_same_v<T, float> && kVecs == kNeonTileVecs)
    if (b_stride == kNeonTileWidth) {
      through_memory(sum, [&](Vec<float>* memory) {
        for (int64_t tap = 0; tap < t.taps; ++tap, b += length * b_stride, fetch += length * fetch_stride)
          neon_tile_by_rows<kRows>(memory, t.a_rows + tap * t.a_stride, t.a_offset, b, length, fetch, fetch_stride * 4);
      });
      return Outcome<T, kRows, kVecs>::store(sum, t);
    }
#endif
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const T* a[kRows];
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) a[i] = t.a_rows[tap * t.a_stride + i] + t.a_offset;
    for (int64_t k = 0; k < length; ++k, b += b_stride, fetch += fetch_stride) {
      __builtin_prefetch(fetch, 0, 2);
      step<T, kRows, kVecs>(sum, b, [&](int i) { return a[i][k]; });
    }
  }
  Outcome<T, kRows, kVecs>::store(sum, t);
}

template <class T, int kRows, int kVecs>
void by_columns(const Tile<T>& t) {
  Vec<T> sum[kRows][kVecs];
  clear(sum);
  const T *a = t.a_columns, *b = t.b;
  const int64_t a_stride = t.a_stride, b_stride = t.b_stride;
  const T* fetch = t.fetch ? t.fetch : t.b;
  const int64_t fetch_stride = t.fetch ? t.fetch_stride : 0;
#if defined(PADDOCK_NEON_TILE)
  if constexpr (std::is_same_v<T, float> && kVecs == kNeonTileVecs)
    if (b_stride == kNeonTileWidth && a_stride == kNeonTileColumn && t.a_padded) {
      through_memory(sum, [&](Vec<float>* memory) {
        neon_tile_by_columns<kRows>(memory, a, b, t.length, fetch, fetch_stride * 4);
      });
      return Outcome<T, kRows, kVecs>::store(sum, t);
    }
#endif
  for (int64_t k = 0; k < t.length; ++k, a += a_stride, b += b_stride, fetch += fetch_stride) {
    __builtin_prefetch(fetch, 0, 2);
    step<T, kRows, kVecs>(sum, b, [&](int i) { return a[i]; });
  }
  Outcome<T, kRows, kVecs>::store(sum, t);
}

template <class T, int kVecs, int... kRow>
TileKernel<T> pick(int64_t rows, bool columns, std::integer_sequence<int, kRow...>) {
  static constexpr std::array<TileKernel<T>, sizeof...(kRow)> rows_table{by_rows<T, kRow + 1, kVecs>...};
  static constexpr std::array<TileKernel<T>, sizeof...(kRow)> columns_table{by_columns<T, kRow + 1, kVecs>...};
  return (columns ? columns_table : rows_table)[static_cast<size_t>(rows - 1)];
}

template <class T, int kVecs>
TileKernel<T> pick(int64_t rows, int64_t vecs, bool columns) {
  if constexpr (kVecs > kPanelVecs) {
    return nullptr;
  } else {
    if (vecs != kVecs) return pick<T, kVecs + 1>(rows, vecs, columns);
    return pick<T, kVecs>(rows, columns, std::make_integer_sequence<int, tile_rows(kVecs)>{});
  }
}

}  // namespace

template <class T>
TileKernel<T> tile_kernel_by_rows(int64_t rows, int64_t vecs) {
  return pick<T, 1>(rows, vecs, false);
}
template <class T>
TileKernel<T> tile_kernel_by_columns(int64_t rows, int64_t vecs) {
  return pick<T, 1>(rows, vecs, true);
}

template <class T>
void finish_row(const T* sum, T* c, int64_t column, int64_t columns, T alpha, T beta, const Epilogue<T>* epilogue,
                int64_t residual_shift) {
  using V = Vec<T>;
  const V scale = V::broadcast(alpha), keep = V::broadcast(beta);
  for (int64_t j = 0; j < columns; j += V::kSize) {
    const int64_t n = std::min<int64_t>(V::kSize, columns - j);
    V x = V::load_n(sum + j, n) * scale;
    if (beta != T(0)) x = fma(V::load_n(c + j, n), keep, x);
    if (epilogue) {
      if (epilogue->bias) x += V::load_n(epilogue->bias + column + j, n);
      if (epilogue->residual && !epilogue->residual_last) x += V::load_n(c + j + residual_shift, n);
      x = activate(x, *epilogue);
      if (epilogue->residual && epilogue->residual_last) x += V::load_n(c + j + residual_shift, n);
    }
    x.store_n(c + j, n);
  }
  if (!epilogue || !epilogue->loop) return;
  const int64_t at = c - epilogue->origin;
  const void* in[] = {c, epilogue->operand ? epilogue->operand + at : nullptr};
  epilogue->loop.run(in, c, columns, &epilogue->loop.attr);
}

#define PADDOCK_INSTANTIATE(T)                                        \
  template TileKernel<T> tile_kernel_by_rows<T>(int64_t, int64_t);    \
  template TileKernel<T> tile_kernel_by_columns<T>(int64_t, int64_t); \
  template void finish_row<T>(const T*, T*, int64_t, int64_t, T, T, const Epilogue<T>*, int64_t);
PADDOCK_INSTANTIATE(float)
PADDOCK_INSTANTIATE(double)
#undef PADDOCK_INSTANTIATE

}  // namespace paddock::cpu
