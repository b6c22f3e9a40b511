// Random kernels. Element i depends on the key and i only, so any split of the work gives the same bits.
#include <cmath>

#include "cpu/random/dropout.h"

namespace paddock::cpu {
namespace {

constexpr double kTwoPi = 6.283185307179586476925;

// Uniform numbers in [0, 1) of a block: four floats of 24 bits, or two doubles of 53.
template <class T>
inline constexpr int64_t kPerBlock = sizeof(T) == 4 ? 4 : 2;

void to_units(const Words& s, float* units) {
  for (int64_t i = 0; i < kStrip; ++i) units[i] = to_unit(s.word[i]);
}
void to_units(const Words& s, double* units) {
  for (int64_t i = 0; i < kStrip / 2; ++i)
    units[i] = ((s.word[2 * i] >> 5) * 0x1p26 + (s.word[2 * i + 1] >> 6)) * 0x1p-53;
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

PADDOCK_CPU_KERNEL(random_uniform_like) {
  generate(c.in("key").data<int64_t>(), c.out(0).numel(), c.out(0).data<float>(),
           [](const Words& s, float* v) { to_units(s, v); });
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

// Words 2 i and 2 i + 1 of a stream as one number, for the n numbers from `first` on; first is even.
template <class F>
void for_each_long_word(const int64_t* key, int64_t first, int64_t n, F&& take) {
  for (int64_t at = 0; at < n; at += kStrip / 2) {
    const Words s = random_words(key, static_cast<uint64_t>((first + at) / 2));
    for (int64_t i = 0; i < std::min(kStrip / 2, n - at); ++i)
      take(at + i, static_cast<uint64_t>(s.word[2 * i + 1]) << 32 | s.word[2 * i]);
  }
}

PADDOCK_CPU_KERNEL(random_integers) {
  const auto low = static_cast<uint64_t>(c.attr<int64_t>("low"));
  const uint64_t range = static_cast<uint64_t>(c.attr<int64_t>("high")) - low;
  const auto* key = c.in("key").data<int64_t>();
  dispatch_index(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = c.out(0).data<T>();
    parallel_for(c.out(0).numel(), kGrain / 4, [&](int64_t begin, int64_t end) {
      for_each_long_word(key, begin, end - begin, [&](int64_t i, uint64_t word) {
        // The upper half of a product of 64 by 64 bits, by halves.
        const uint64_t a = word >> 32, b = word & 0xffffffffu, u = range >> 32, v = range & 0xffffffffu;
        const uint64_t middle = a * v + (b * v >> 32), other = b * u + (middle & 0xffffffffu);
        y[begin + i] = static_cast<T>(low + a * u + (middle >> 32) + (other >> 32));
      });
    });
  });
}

PADDOCK_CPU_KERNEL(random_permutation) {
  const int64_t n = c.out(0).numel();
  const auto* key = c.in("key").data<int64_t>();
  std::vector<std::pair<uint64_t, int64_t>> items(static_cast<size_t>(n));
  parallel_for(n, kGrain / 4, [&](int64_t begin, int64_t end) {
    for_each_long_word(key, begin, end - begin,
                       [&](int64_t i, uint64_t word) { items[static_cast<size_t>(begin + i)] = {word, begin + i}; });
  });
  std::sort(items.begin(), items.end());  // equal numbers in the order of their places
  for (int64_t i = 0; i < n; ++i) c.out(0).data<int64_t>()[i] = items[static_cast<size_t>(i)].second;
}

PADDOCK_CPU_KERNEL(dropout) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Dropout<T> drop(c.in("key").data<int64_t>(), c.attr<double>("p"));
    const T* x = c.in(0).data<T>();
    T* y = c.out(0).data<T>();
    parallel_for(c.in(0).numel(), kGrain / 4,
                 [&](int64_t begin, int64_t end) { drop(begin, end - begin, x + begin, y + begin); });
  });
}

}  // namespace
}  // namespace paddock::cpu
