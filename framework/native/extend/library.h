// Opens a library of operators from outside of the tree. It runs the library's code: only ever by the user's own call.
#pragma once
#include <string>
#include <vector>

#include "op/op.h"

namespace paddock {

// The operators of the library at `path`, checked for completeness; they stay for the life of the process and are not
// part of the registry. The caller has checked the library's note (AbiNote). Errors leave nothing behind.
PADDOCK_API std::vector<OpDef*> load_library(const std::string& path);

}  // namespace paddock
