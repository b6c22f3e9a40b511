// What a process has of its machine: cores, by its affinity and by the CPU quotas of its control groups; their cache.
#pragma once
#include <cstdint>
#include <string>

#include "core/api.h"

namespace paddock {

// At least 1. Part of a core counts as a whole one. `root` stands before /proc and /sys, for tests.
PADDOCK_API int available_cores(const std::string& root = "");

// What the quotas of the control groups (versions 1 and 2) allow, those of the groups above too; 0 for no limit.
PADDOCK_API int quota_cores(const std::string& root);

// Bytes of the third-level cache of the first core and those that share it; 0 where the system does not tell.
// (sysconf() adds up all of a package's on some AMD machines.)
PADDOCK_API int64_t last_cache_bytes(const std::string& root = "");

}  // namespace paddock
