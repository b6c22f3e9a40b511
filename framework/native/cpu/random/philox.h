// Blocks of the Philox generator (core/random.h) computed side by side, for kernels that draw many numbers.
#pragma once
#include "cpu/vec/vec_int.h"

namespace paddock::cpu {

inline constexpr int64_t kPhiloxLanes = Words16::kSize;

// The words of kPhiloxLanes blocks, one block after the other: word[4 * i + w] is word w of block i.
struct PhiloxWords {
  uint32_t word[4 * kPhiloxLanes];
};

// The blocks block(0), block(1) ... of the stream that `key` (seed, call number) names.
template <class Block>
inline PhiloxWords philox_words(const int64_t* key, Block block) {
  const auto seed = static_cast<uint64_t>(key[0]), call = static_cast<uint64_t>(key[1]);
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  uint32_t words[4][kPhiloxLanes];
  for (int64_t i = 0; i < kPhiloxLanes; ++i) {
    const uint64_t index = block(i);
    words[0][i] = static_cast<uint32_t>(index);
    words[1][i] = static_cast<uint32_t>(index >> 32);
  }
  Words16 a = Words16::load(words[0]), b = Words16::load(words[1]);
  Words16 c = Words16::broadcast(static_cast<uint32_t>(call)),
          d = Words16::broadcast(static_cast<uint32_t>(call >> 32));
  for (int round = 0; round < 10; ++round) {  // core/random.h's rounds, one block a lane
    Words16 p, q, p_low, q_low;
    multiply_wide(a, 0xD2511F53u, p, p_low);
    multiply_wide(c, 0xCD9E8D57u, q, q_low);
    a = q ^ b ^ Words16::broadcast(k0);
    c = p ^ d ^ Words16::broadcast(k1);
    b = q_low;
    d = p_low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  a.store(words[0]);
  b.store(words[1]);
  c.store(words[2]);
  d.store(words[3]);
  PhiloxWords s;
  for (int64_t i = 0; i < kPhiloxLanes; ++i) {
    for (int64_t w = 0; w < 4; ++w) s.word[4 * i + w] = words[w][i];
  }
  return s;
}

}  // namespace paddock::cpu
