// Blocks of the Philox generator (core/random.h) computed side by side, for kernels that draw many numbers.
#pragma once
#include <cstdint>

namespace paddock::cpu {

inline constexpr int64_t kPhiloxLanes = 16;

// The words of kPhiloxLanes blocks, one block after the other: word[4 * i + w] is word w of block i.
struct PhiloxWords {
  uint32_t word[4 * kPhiloxLanes];
};

// The blocks block(0), block(1) ... of the stream that `key` (seed, call number) names.
template <class Block>
inline PhiloxWords philox_words(const int64_t* key, Block block) {
  const auto seed = static_cast<uint64_t>(key[0]), call = static_cast<uint64_t>(key[1]);
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  uint32_t a[kPhiloxLanes], b[kPhiloxLanes], c[kPhiloxLanes], d[kPhiloxLanes];
  for (int64_t i = 0; i < kPhiloxLanes; ++i) {
    const uint64_t index = block(i);
    a[i] = static_cast<uint32_t>(index);
    b[i] = static_cast<uint32_t>(index >> 32);
    c[i] = static_cast<uint32_t>(call);
    d[i] = static_cast<uint32_t>(call >> 32);
  }
  for (int round = 0; round < 10; ++round) {  // core/random.h's rounds, one block a vector element
#pragma GCC unroll 1                          // a loop left whole is vectorised
    for (int64_t i = 0; i < kPhiloxLanes; ++i) {
      const uint64_t p = uint64_t{0xD2511F53u} * a[i], q = uint64_t{0xCD9E8D57u} * c[i];
      a[i] = static_cast<uint32_t>(q >> 32) ^ b[i] ^ k0;
      b[i] = static_cast<uint32_t>(q);
      c[i] = static_cast<uint32_t>(p >> 32) ^ d[i] ^ k1;
      d[i] = static_cast<uint32_t>(p);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  PhiloxWords s;
  for (int64_t i = 0; i < kPhiloxLanes; ++i) {
    s.word[4 * i] = a[i];
    s.word[4 * i + 1] = b[i];
    s.word[4 * i + 2] = c[i];
    s.word[4 * i + 3] = d[i];
  }
  return s;
}

}  // namespace paddock::cpu
