// From exceptions to statuses.
#include "predictor/guarded.h"

#include <new>

#include "reader/utf8.h"

namespace paddock::c_api {
namespace {

thread_local std::string last_text;

paddock_status failed(paddock_status status, const char* what) noexcept {
  try {
    last_text = what;
    if (!reader::is_utf8(last_text))  // it tells bytes that somebody gave as a text
      std::replace_if(last_text.begin(), last_text.end(), [](char c) { return static_cast<signed char>(c) < 0; }, '?');
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

std::string called(const char* what, int32_t number) { return number < 0 ? std::string(what) : cat(what, " ", number); }

TensorType type_of(const paddock_tensor& t, const char* what, int32_t number) {
  if (t.type < 0 || t.type >= kDTypeCount) bad_argument(called(what, number), ": there is no type ", t.type);
  if (t.rank < 0 || t.rank > PADDOCK_MAX_RANK)
    bad_argument(called(what, number), " has ", t.rank, " axes; 0 to 8 are possible");
  TensorType type{{}, static_cast<DType>(t.type)};
  int64_t bytes = dtype_size(type.dtype);
  for (int i = 0; i < t.rank; ++i) {
    type.shape.push_back(t.shape[i]);
    if (t.shape[i] < 0 || __builtin_mul_overflow(bytes, t.shape[i], &bytes))
      fail(ErrorKind::kShape, called(what, number), " has the impossible shape ", type.shape);
  }
  if (static_cast<uint64_t>(bytes) != t.bytes)
    fail(ErrorKind::kShape, called(what, number), " is ", type.dtype, type.shape, ", which are ", bytes,
         " bytes; it is said to have ", t.bytes);
  return type;
}

}  // namespace

Tensor tensor_of(const paddock_tensor& t, const char* what, int32_t number) {
  const TensorType type = type_of(t, what, number);
  if (t.bytes) {
    if (!t.data) bad_argument(called(what, number), " has no data");
    if (reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(dtype_size(type.dtype)))
      bad_argument(called(what, number), ": its data are not aligned to the ", dtype_size(type.dtype),
                   " bytes of an element");
  }
  if (type.dtype == DType::kBool)
    for (uint64_t i = 0; i < t.bytes; ++i)
      if (static_cast<const uint8_t*>(t.data)[i] > 1) bad_argument(called(what, number), ": a bool is neither 0 nor 1");
  // Kernels do not write inputs.
  return Tensor(type, std::make_shared<Storage>(const_cast<void*>(t.data), t.bytes, [] {}), 0);
}

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
