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

#if defined(__x86_64__)
namespace {

constexpr uint32_t kFlush = 0x8040;  // results to zero, and operands taken for zero

}  // namespace

FlushScope::FlushScope() {
  before_ = _mm_getcsr();
  const uint32_t now = flushes_subnormals() ? before_ | kFlush : before_ & ~kFlush;
  changed_ = now != before_;
  if (changed_) _mm_setcsr(now);
}

FlushScope::~FlushScope() {
  if (changed_) _mm_setcsr(before_);
}
#else
FlushScope::FlushScope() = default;
FlushScope::~FlushScope() = default;
#endif

}  // namespace paddock
