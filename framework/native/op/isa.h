// Instruction sets: the CPU kernels are compiled once for each, in a library of its own, and one set is in
// use.
#pragma once
#include <string>
#include <vector>

#include "core/api.h"

namespace paddock {

// The instruction sets that were built and that this CPU can run, the slowest first ("baseline", "avx2",
// "avx512").
PADDOCK_API std::vector<std::string> supported_isas();
PADDOCK_API std::string active_isa();
// Loads that set's library (lib/libpaddock_cpu_<isa>.so beside libpaddock) and puts its kernels into the
// registry.
PADDOCK_API void use_isa(const std::string& isa);

}  // namespace paddock
