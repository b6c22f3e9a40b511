// Which bucket and slot a key belongs to. Part of the files' format: a key is in the same bucket everywhere.
#pragma once
#include <cstdint>

namespace paddock::table {

// The finisher of splitmix64 (Steele, Lea, Flood 2014): every bit of the key moves every bit of the result.
inline uint64_t mix(uint64_t key) {
  key += 0x9E3779B97F4A7C15u;
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
  return key ^ (key >> 31);
}

// The bucket from the highest bits, the slot in it from the lowest.
inline int bucket_of(uint64_t hash, int bucket_bits) {
  return bucket_bits ? static_cast<int>(hash >> (64 - bucket_bits)) : 0;
}

// Asks for the lines of memory that hold `bytes` from `from` on.
inline void prefetch_lines(const void* from, int64_t bytes) {
  constexpr uintptr_t kLine = 64;
  const auto first = reinterpret_cast<uintptr_t>(from);
  for (uintptr_t at = first & ~(kLine - 1); at < first + static_cast<uintptr_t>(bytes); at += kLine)
    __builtin_prefetch(reinterpret_cast<const char*>(at));
}

// The slot of a sign is its top 12 bits.
inline constexpr int kSlots = 4096;
inline int slot_of(uint64_t key) { return static_cast<int>(key >> 52); }

}  // namespace paddock::table
