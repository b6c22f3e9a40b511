// parallel_for: work is split by size, never by thread count, so that any number of threads gives the same
// bits.
#pragma once
#include <cstdint>

#include "core/api.h"
#include "core/function_ref.h"

namespace paddock {

// Calls body(begin, end) for consecutive chunks of exactly `grain` items of [0, n); the last may be shorter.
// Threads claim chunks as they become free. A nested call runs inline. An exception in a chunk is rethrown
// here.
PADDOCK_API void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

PADDOCK_API int num_threads();
PADDOCK_API void set_num_threads(int n);

}  // namespace paddock
