// Stores past the caches, for results larger than they are: a line is written without being read first, and what the
// caches hold stays. Beside vec.h, the only instruction-set code of the kernels. On x86-64 alone: compilers have no
// such store for aarch64, whose processors see long runs of stores by themselves.
#pragma once
#include <algorithm>

#include "core/cores.h"
#include "cpu/vec/vec.h"

namespace paddock::cpu {

// Results from this size on leave the caches before they are read: an eighth of the last cache, which other cores use
// too. Streaming what would stay there costs up to a tenth of a network's time.
inline int64_t stream_bytes() {
  static const int64_t bytes = std::clamp<int64_t>(last_cache_bytes() / 8, 12 << 20, 64 << 20);
  return bytes;
}

// Whether rows of `row_bytes`, the first at `data`, lie so that vectors of them may be streamed, and are worth it.
inline bool worth_streaming([[maybe_unused]] const void* data, [[maybe_unused]] int64_t row_bytes,
                            [[maybe_unused]] int64_t rows) {
#if defined(__SSE2__)
  return row_bytes * rows >= stream_bytes() && row_bytes % kVecBytes == 0 &&
         reinterpret_cast<uintptr_t>(data) % kVecBytes == 0;
#else
  return false;
#endif
}

// `p` must be aligned to the vector.
template <class T>
PADDOCK_INLINE void stream(Vec<T> x, T* p) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), reinterpret_cast<__m512i>(x.v));
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(x.v));
#elif defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), reinterpret_cast<__m128i>(x.v));
#else
  x.store(p);
#endif
}

// Streamed stores are not ordered with others: a thread calls this before it says that its part is done.
inline void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace paddock::cpu
