// A lock for a few dozen instructions, held by at most one thread: cheaper than a mutex where nobody else wants it.
#pragma once
#include <atomic>
#include <thread>

namespace paddock::table {

class Latch {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire))
      for (int spins = 0; held_.load(std::memory_order_relaxed); ++spins)
        if (spins > kSpins) std::this_thread::yield();  // its holder may wait for our core
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;
  std::atomic<bool> held_{false};
};

}  // namespace paddock::table
