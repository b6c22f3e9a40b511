// Random kernels. Element i depends on the key and i only, so any split of the work gives the same bits.
#include "core/random.h"

#include <cmath>

#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kLanes = 16;  // generator blocks computed side by side, four words each
constexpr double kTwoPi = 6.283185307179586476925;

// The words of blocks first, first + 1, ... of a key's stream: word[w][lane] is random_block(key, first + lane)[w].
struct Words {
  uint32_t word[4][kLanes];
};

Words random_words(const int64_t* key, uint64_t first) {
  auto seed = static_cast<uint64_t>(key[0]), call = static_cast<uint64_t>(key[1]);
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  Words s;
  for (int64_t i = 0; i < kLanes; ++i) {
    const uint64_t index = first + static_cast<uint64_t>(i);
    s.word[0][i] = static_cast<uint32_t>(index);
    s.word[1][i] = static_cast<uint32_t>(index >> 32);
    s.word[2][i] = static_cast<uint32_t>(call);
    s.word[3][i] = static_cast<uint32_t>(call >> 32);
  }
  for (int round = 0; round < 10; ++round) {  // core/random.h's rounds, one lane a vector element
    for (int64_t i = 0; i < kLanes; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * s.word[0][i], p1 = uint64_t{0xCD9E8D57u} * s.word[2][i];
      s.word[0][i] = static_cast<uint32_t>(p1 >> 32) ^ s.word[1][i] ^ k0;
      s.word[1][i] = static_cast<uint32_t>(p1);
      s.word[2][i] = static_cast<uint32_t>(p0 >> 32) ^ s.word[3][i] ^ k1;
      s.word[3][i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return s;
}

// Uniform numbers in [0, 1) of a block: four floats of 24 bits, or two doubles of 53.
template <class T>
inline constexpr int64_t kPerBlock = sizeof(T) == 4 ? 4 : 2;

template <class T>
void to_units(const Words& s, T* units) {
  for (int64_t i = 0; i < kLanes; ++i)
    for (int64_t k = 0; k < kPerBlock<T>; ++k) {
      if constexpr (sizeof(T) == 4)
        units[i * 4 + k] = to_unit(s.word[k][i]);
      else
        units[i * 2 + k] = ((s.word[2 * k][i] >> 5) * 0x1p26 + (s.word[2 * k + 1][i] >> 6)) * 0x1p-53;
    }
}

// y[i] for all i, a strip of kLanes blocks at a time: make(words, strip) fills the strip's values.
template <class T, class F>
void generate(const int64_t* key, int64_t n, T* y, F&& make) {
  constexpr int64_t strip = kLanes * kPerBlock<T>;
  parallel_for(n, kGrain / 4, [&](int64_t begin, int64_t end) {
    static_assert(kGrain / 4 % strip == 0);
    for (int64_t at = begin; at < end; at += strip) {
      T values[strip];
      make(random_words(key, static_cast<uint64_t>(at / kPerBlock<T>)), values);
      std::copy_n(values, std::min(strip, end - at), y + at);
    }
  });
}

PADDOCK_CPU_KERNEL(rng_next) {
  const auto* state = c.in("state").data<int64_t>();
  auto *key = c.out("key").data<int64_t>(), *next = c.out("next").data<int64_t>();
  key[0] = next[0] = state[0];
  key[1] = state[1];
  next[1] = static_cast<int64_t>(static_cast<uint64_t>(state[1]) + 1);
}

PADDOCK_CPU_KERNEL(random_uniform) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T low = static_cast<T>(c.attr<double>("low")), high = static_cast<T>(c.attr<double>("high"));
    const T largest = std::nextafter(high, low);  // rounding must not reach `high`
    generate(c.in("key").data<int64_t>(), c.out(0).numel(), c.out(0).data<T>(), [=](const Words& s, T* v) {
      to_units(s, v);
      for (int64_t i = 0; i < kLanes * kPerBlock<T>; ++i) v[i] = std::min(low + (high - low) * v[i], largest);
    });
  });
}

PADDOCK_CPU_KERNEL(random_normal) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T mean = static_cast<T>(c.attr<double>("mean")), std = static_cast<T>(c.attr<double>("std"));
    const T step = sizeof(T) == 4 ? T(0x1p-24) : T(0x1p-53);
    generate(c.in("key").data<int64_t>(), c.out(0).numel(), c.out(0).data<T>(), [=](const Words& s, T* v) {
      to_units(s, v);
      for (int64_t i = 0; i < kLanes * kPerBlock<T>; i += 2) {
        const T radius = std * std::sqrt(-2 * std::log(v[i] + step));  // the unit in (0, 1]
        const T angle = static_cast<T>(kTwoPi) * v[i + 1];
        v[i] = mean + radius * std::cos(angle);
        v[i + 1] = mean + radius * std::sin(angle);
      }
    });
  });
}

PADDOCK_CPU_KERNEL(dropout) {
  const auto* key = c.in("key").data<int64_t>();
  const double p = c.attr<double>("p");
  // Kept when the word's upper 24 bits, as a fraction, are at least p; the same choice for every type.
  const auto least = static_cast<uint32_t>(std::ceil(p * 0x1p24));
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int64_t strip = kLanes * 4;
    const T* x = c.in(0).data<T>();
    T* y = c.out(0).data<T>();
    const T factor = static_cast<T>(1 / (1 - p));
    parallel_for(c.in(0).numel(), kGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += strip) {
        const Words s = random_words(key, static_cast<uint64_t>(at / 4));
        T factors[strip];
        for (int64_t i = 0; i < strip; ++i) factors[i] = (s.word[i % 4][i / 4] >> 8) >= least ? factor : T{0};
        const int64_t n = std::min(strip, end - at);
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) y[at + i] = factors[i] != 0 ? x[at + i] * factors[i] : T{0};
      }
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
