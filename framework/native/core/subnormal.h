// Whether threads that compute take subnormal numbers, those below 2^-126 in float32, for zero.
#pragma once
#include <cstdint>

#include "core/api.h"

namespace paddock {

PADDOCK_API bool flushes_subnormals();
PADDOCK_API void set_flush_subnormals(bool on);

// The calling thread computes the way that is set as long as this lives, whatever other libraries have set for it (a
// thread starts with what its maker had). Processors but x86-64 and aarch64 compute subnormal numbers exactly.
class PADDOCK_API FlushScope {
 public:
  FlushScope();
  ~FlushScope();
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;

 private:
  uint32_t before_ = 0;
  bool changed_ = false;
};

}  // namespace paddock
