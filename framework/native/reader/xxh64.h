// XXH64, a 64-bit hash of bytes that is fast and not cryptographic, written from its specification:
// https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. Little-endian input, as the machines we build for.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace paddock::reader {

static_assert(std::endian::native == std::endian::little);

namespace xxh64 {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87u, kPrime2 = 0xC2B2AE3D27D4EB4Fu, kPrime3 = 0x165667B19E3779F9u,
                   kPrime4 = 0x85EBCA77C2B2AE63u, kPrime5 = 0x27D4EB2F165667C5u;

template <class T>
inline T load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

inline uint64_t round(uint64_t sum, uint64_t lane) { return std::rotl(sum + lane * kPrime2, 31) * kPrime1; }

// The sum of an input of 32 bytes or more, whose full stripes are read; `p` is left behind them.
inline uint64_t stripes(const char*& p, size_t size, uint64_t seed) {
  uint64_t sums[4] = {seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1};
  for (const char* last = p + (size & ~size_t{31}); p < last; p += 32)
    for (int i = 0; i < 4; ++i) sums[i] = round(sums[i], load<uint64_t>(p + 8 * i));
  uint64_t sum = std::rotl(sums[0], 1) + std::rotl(sums[1], 7) + std::rotl(sums[2], 12) + std::rotl(sums[3], 18);
  for (uint64_t s : sums) sum = (sum ^ round(0, s)) * kPrime1 + kPrime4;
  return sum;
}

inline uint64_t avalanche(uint64_t h) {
  h = (h ^ (h >> 33)) * kPrime2;
  h = (h ^ (h >> 29)) * kPrime3;
  return h ^ (h >> 32);
}

}  // namespace xxh64

inline uint64_t hash64(const char* p, size_t size, uint64_t seed = 0) {
  using namespace xxh64;
  uint64_t h = size >= 32 ? stripes(p, size, seed) : seed + kPrime5;
  h += size;
  size_t left = size & 31;
  for (; left >= 8; left -= 8, p += 8) h = std::rotl(h ^ round(0, load<uint64_t>(p)), 27) * kPrime1 + kPrime4;
  if (left >= 4) {
    h = std::rotl(h ^ load<uint32_t>(p) * kPrime1, 23) * kPrime2 + kPrime3;
    p += 4;
    left -= 4;
  }
  for (; left > 0; --left, ++p) h = std::rotl(h ^ static_cast<unsigned char>(*p) * kPrime5, 11) * kPrime1;
  return avalanche(h);
}

// A sign: the slot in the upper 12 bits, the low 52 bits of the hash below. 0 below means "missing", so a value whose
// hash is 0 has 1.
constexpr int kHashBits = 52;
constexpr uint64_t kHashMask = (uint64_t{1} << kHashBits) - 1;

inline uint64_t hash52(const char* p, size_t size) {
  uint64_t h = hash64(p, size) & kHashMask;
  return h == 0 ? 1 : h;
}

}  // namespace paddock::reader
