// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011).
#pragma once
#include <array>
#include <cstdint>

namespace paddock {

// Four 32-bit words that depend on (key, counter) only.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53u} * counter[0], p1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// The words of block `index` (four values a block) of the stream that a random operator's `key` tensor names:
// key = int64[2] (seed, call number).
inline std::array<uint32_t, 4> random_block(const int64_t* key, uint64_t index) {
  auto seed = static_cast<uint64_t>(key[0]), call = static_cast<uint64_t>(key[1]);
  return philox4x32({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
                    {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(call),
                     static_cast<uint32_t>(call >> 32)});
}

// Uniform in [0, 1) with 24 random bits.
inline float to_unit(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace paddock
