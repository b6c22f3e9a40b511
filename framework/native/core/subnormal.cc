#include "core/subnormal.h"

#include <atomic>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paddock {
namespace {

std::atomic<bool> wanted{false};

}  // namespace

bool flushes_subnormals() { return wanted.load(std::memory_order_relaxed); }
void set_flush_subnormals(bool on) { wanted.store(on, std::memory_order_relaxed); }

#if defined(__x86_64__) || defined(__aarch64__)
namespace {

// The calling thread's control of floating-point arithmetic.
#if defined(__x86_64__)
constexpr uint32_t kFlush = 0x8040;  // results to zero, and operands taken for zero

uint32_t control() { return _mm_getcsr(); }
void set_control(uint32_t bits) { _mm_setcsr(bits); }
#else
constexpr uint32_t kFlush = 1u << 24;  // FPCR.FZ: both

uint32_t control() {
  uint64_t bits;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return static_cast<uint32_t>(bits);
}
void set_control(uint32_t bits) { asm volatile("msr fpcr, %0" : : "r"(uint64_t{bits}) : "memory"); }
#endif

}  // namespace

FlushScope::FlushScope() {
  before_ = control();
  const uint32_t now = flushes_subnormals() ? before_ | kFlush : before_ & ~kFlush;
  changed_ = now != before_;
  if (changed_) set_control(now);
}

FlushScope::~FlushScope() {
  if (changed_) set_control(before_);
}
#else
FlushScope::FlushScope() = default;
FlushScope::~FlushScope() = default;
#endif

}  // namespace paddock
