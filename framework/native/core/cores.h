// How many cores this process may use, by its affinity and by the CPU quotas of its control groups; how large their
// caches are.
#pragma once
#include <cstdint>
#include <string>

#include "core/api.h"

namespace paddock {

// At least 1. Part of a core counts as a whole one. `root` stands before /proc and /sys, for tests.
PADDOCK_API int available_cores(const std::string& root = "");

// What the quotas of the control groups (versions 1 and 2) allow, those of the groups above too; 0 for no limit.
PADDOCK_API int quota_cores(const std::string& root);

// Bytes of the cache that a group of cores shares before memory; 0 where the system does not tell.
PADDOCK_API int64_t last_cache_bytes();

}  // namespace paddock
