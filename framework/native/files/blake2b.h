// BLAKE2b without a key, a cryptographic hash, written from RFC 7693. Little-endian input, as the machines we build
// for.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace paddock::files {

static_assert(std::endian::native == std::endian::little);

// The digest of the bytes that `add` was given, one piece behind the other.
class Blake2b {
 public:
  static constexpr size_t kDigest = 16;  // bytes

  Blake2b() { state_[0] ^= 0x01010000 ^ kDigest; }

  void add(const uint8_t* data, size_t size) {
    while (size > 0) {
      if (held_ == kBlock) compress(false);  // only once more follows: the last block is marked
      const size_t count = std::min(size, kBlock - held_);
      std::memcpy(block_.data() + held_, data, count);
      held_ += count;
      data += count;
      size -= count;
    }
  }

  void finish(uint8_t* digest) {
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(held_), block_.end(), uint8_t{0});
    compress(true);
    std::memcpy(digest, state_.data(), kDigest);
  }

 private:
  using Words = std::array<uint64_t, 16>;
  static constexpr size_t kBlock = 128;
  static constexpr std::array<uint64_t, 8> kInitial = {0x6A09E667F3BCC908u, 0xBB67AE8584CAA73Bu, 0x3C6EF372FE94F82Bu,
                                                       0xA54FF53A5F1D36F1u, 0x510E527FADE682D1u, 0x9B05688C2B3E6C1Fu,
                                                       0x1F83D9ABFB41BD6Bu, 0x5BE0CD19137E2179u};
  static constexpr uint8_t kOrder[10][16] = {
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
      {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
      {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
      {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
      {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

  static void mix(Words& v, size_t a, size_t b, size_t c, size_t d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x;
    v[d] = std::rotr(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = std::rotr(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 63);
  }

  template <size_t kRound>
  static void round(Words& v, const Words& m) {
    constexpr const uint8_t* s = kOrder[kRound];
    mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
    mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
    mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
    mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
    mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
    mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
    mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
    mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
  }

  void compress(bool last) {
    Words m, v;
    std::memcpy(m.data(), block_.data(), kBlock);
    std::copy(state_.begin(), state_.end(), v.begin());
    std::copy(kInitial.begin(), kInitial.end(), v.begin() + 8);
    total_ += held_;
    v[12] ^= total_;  // the upper half of the counter stays 0: no input has 2^64 bytes
    if (last) v[14] = ~v[14];
    [&]<size_t... kRounds>(std::index_sequence<kRounds...>) {
      (round<kRounds % 10>(v, m), ...);
    }(std::make_index_sequence<12>());
    for (size_t i = 0; i < 8; ++i) state_[i] ^= v[i] ^ v[i + 8];
    held_ = 0;
  }

  std::array<uint64_t, 8> state_ = kInitial;
  std::array<uint8_t, kBlock> block_{};
  size_t held_ = 0;  // bytes of the block
  uint64_t total_ = 0;
};

}  // namespace paddock::files
