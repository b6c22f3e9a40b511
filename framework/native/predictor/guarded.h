// What all parts of the C interface share: handles, checks of arguments, exceptions as statuses.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "core/error.h"
#include "core/function_ref.h"
#include "predictor/paddock.h"
#include "predictor/predictor.h"

struct paddock_options {
  paddock::predictor::Options values;
};

namespace paddock::texts {
struct TextPlan;
}

namespace paddock::rows {
struct RowPlan;
}

namespace paddock::c_api {
// What is made of the metadata once, when somebody asks; clones share it.
template <class Plan>
struct Shared {
  std::mutex lock;
  std::shared_ptr<const Plan> plan;
};
using SharedTexts = Shared<texts::TextPlan>;
using SharedRows = Shared<rows::RowPlan>;
}  // namespace paddock::c_api

struct paddock_predictor {
  std::unique_ptr<paddock::predictor::Predictor> self;
  std::shared_ptr<paddock::c_api::SharedTexts> texts = std::make_shared<paddock::c_api::SharedTexts>();
  std::shared_ptr<paddock::c_api::SharedRows> rows = std::make_shared<paddock::c_api::SharedRows>();
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

// Structs grow with versions; a caller's may be shorter than ours.
template <class T>
void fill(T* to, const T& from, const char* what) {
  expect(to, what);
  const uint32_t size = to->struct_size;
  if (size < offsetof(T, shape) || size > 4096) bad_argument(what, "->struct_size is ", size, "; set it to sizeof");
  const auto* bytes = reinterpret_cast<const char*>(&from);
  std::copy(bytes, bytes + std::min<size_t>(size, sizeof(T)), reinterpret_cast<char*>(to));
  to->struct_size = size;
}

template <class T>
T described(const TensorType& type) {
  T t{};
  t.type = static_cast<int32_t>(type.dtype);
  t.rank = type.shape.rank();
  for (int i = 0; i < t.rank; ++i) t.shape[i] = type.shape[i];
  return t;
}

// The caller's memory as a tensor, checked; errors call it `what`, with a number unless that is below 0.
Tensor tensor_of(const paddock_tensor& t, const char* what, int32_t number = -1);

// The tensor's memory, which somebody else keeps alive.
inline void fill_tensor(paddock_tensor* to, const Tensor& t, const char* what) {
  auto found = described<paddock_tensor>(t.type());
  found.data = t.raw();
  found.bytes = static_cast<uint64_t>(t.bytes());
  fill(to, found, what);
}

}  // namespace paddock::c_api
