// From exceptions to statuses.
#include "predictor/guarded.h"

#include <new>

namespace paddock::c_api {
namespace {

thread_local std::string last_text;

paddock_status failed(paddock_status status, const char* what) noexcept {
  try {
    last_text = what;
  } catch (...) {
    last_text.clear();
  }
  return status;
}

paddock_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kShape:
      return PADDOCK_BAD_SHAPE;
    case ErrorKind::kDType:
      return PADDOCK_BAD_TYPE;
    case ErrorKind::kAttribute:
      return PADDOCK_BAD_ARGUMENT;
    case ErrorKind::kNotSupported:
      return PADDOCK_NOT_SUPPORTED;
    case ErrorKind::kState:
      return PADDOCK_BAD_STATE;
    case ErrorKind::kNumerics:
      return PADDOCK_NUMERICS;
    case ErrorKind::kInternal:
      break;
  }
  return PADDOCK_INTERNAL;
}

}  // namespace

const char* last_error() noexcept { return last_text.c_str(); }

paddock_status guarded(FunctionRef<void()> f) noexcept {
  try {
    f();
    return PADDOCK_OK;
  } catch (const predictor::FileError& e) {
    return failed(PADDOCK_BAD_FILE, e.what());
  } catch (const predictor::BusyError& e) {
    return failed(PADDOCK_BUSY, e.what());
  } catch (const predictor::MemoryError& e) {
    return failed(PADDOCK_NO_MEMORY, e.what());
  } catch (const Error& e) {
    return failed(status_of(e.kind()), e.what());
  } catch (const std::bad_alloc&) {
    return failed(PADDOCK_NO_MEMORY, "no memory is left; make the inputs smaller");
  } catch (const std::exception& e) {
    return failed(PADDOCK_INTERNAL, e.what());
  } catch (...) {  // of a user's operator
    return failed(PADDOCK_INTERNAL, "an error of an unknown kind");
  }
}

}  // namespace paddock::c_api
