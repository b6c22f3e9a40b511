// What all parts of the C interface share: handles, checks of arguments, exceptions as statuses.
#pragma once
#include <memory>
#include <string>

#include "core/error.h"
#include "core/function_ref.h"
#include "predictor/paddock.h"
#include "predictor/predictor.h"

struct paddock_options {
  paddock::predictor::Options values;
};

struct paddock_predictor {
  std::unique_ptr<paddock::predictor::Predictor> self;
};

namespace paddock::c_api {

// The text of this thread's last failure.
const char* last_error() noexcept;

// Runs what may throw.
paddock_status guarded(FunctionRef<void()> f) noexcept;

template <class... Args>
[[noreturn]] void bad_argument(const Args&... args) {
  fail(ErrorKind::kAttribute, args...);
}

inline void expect(const void* pointer, const char* what) {
  if (!pointer) bad_argument(what, " is a null pointer");
}

}  // namespace paddock::c_api
