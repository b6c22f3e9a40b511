// What shape rules and kernels see: inputs, outputs and attributes by name.
#pragma once
#include <array>

#include "op/op.h"
#include "op/prepared.h"

namespace paddock {

namespace detail {
[[noreturn]] PADDOCK_API void bad_attr(const OpDef& op, std::string_view name);

// Maps what a rule asks for to what an attribute holds: int for int64_t, float for double, enums stay ints.
template <class T>
T attr_as(const OpDef& op, const std::vector<AttrValue>& values, std::string_view name) {
  int i = op.attr_index(name);
  if (i < 0) bad_attr(op, name);
  if constexpr (std::is_same_v<T, DType>) {
    return dtype_from_name(std::get<std::string>(values[i]), op.name);
  } else if constexpr (std::is_same_v<T, bool>) {
    return std::get<bool>(values[i]);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(std::get<int64_t>(values[i]));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(std::get<double>(values[i]));
  } else {
    return std::get<T>(values[i]);
  }
}
}  // namespace detail

using Ints = std::vector<int64_t>;

class PADDOCK_API InferContext {
 public:
  InferContext(const OpDef& op, const TensorType* const* inputs, int input_count, const std::vector<AttrValue>& attrs,
               std::vector<TensorType>& outputs)
      : op_(op), inputs_(inputs), input_count_(input_count), attrs_(attrs), outputs_(outputs) {}

  const OpDef& op() const { return op_; }
  int input_count() const { return input_count_; }
  bool has(int i) const { return i < input_count_ && inputs_[i] != nullptr; }
  bool has(std::string_view name) const { return has(op_.input_index(name)); }
  const TensorType& in(int i) const { return *inputs_[i]; }
  const TensorType& in(std::string_view name) const { return in(op_.input_index(name)); }
  const Shape& shape(int i) const { return in(i).shape; }
  const Shape& shape(std::string_view name) const { return in(name).shape; }

  template <class T>
  T attr(std::string_view name) const {
    return detail::attr_as<T>(op_, attrs_, name);
  }
  // An Ints attribute of one or two numbers, such as a stride: {height, width}.
  std::array<int64_t, 2> pair(std::string_view name) const;
  // An axis attribute, negative counted from the end, checked against `rank` (allow_end: rank itself is
  // allowed).
  int axis(std::string_view name, int rank, bool allow_end = false) const;
  // An Ints attribute of axes as a bit mask; empty means all of `rank`.
  uint32_t axes_mask(std::string_view name, int rank) const;

  // A result's shape, once the shape rule has given it.
  const Shape& result(int i) const { return outputs_[i].shape; }

  void out(int i, const Shape& shape, DType dtype);
  void out(std::string_view name, const Shape& shape, DType dtype) { out(op_.output_index(name), shape, dtype); }

  // Errors, all as "op: ...".
  template <class... Args>
  [[noreturn]] void shape_error(const Args&... args) const {
    fail(ErrorKind::kShape, op_.name, ": ", args...);
  }
  template <class... Args>
  [[noreturn]] void dtype_error(const Args&... args) const {
    fail(ErrorKind::kDType, op_.name, ": ", args...);
  }
  template <class... Args>
  [[noreturn]] void attr_error(const Args&... args) const {
    fail(ErrorKind::kAttribute, op_.name, ": ", args...);
  }

  // Checks that every rule needs; the message names the argument, its whole shape and the rule.
  void expect_rank(std::string_view name, int rank) const;
  void expect_rank_at_least(std::string_view name, int rank) const;
  void expect_shape(std::string_view name, const Shape& expected) const;
  void expect_dtype(std::string_view name, DType expected) const;
  void expect_floating(std::string_view name) const;  // float32 or float64
  void expect_index(std::string_view name) const;     // int32 or int64
  void expect_same_dtype() const;                     // all present inputs have the first one's type

 private:
  const OpDef& op_;
  const TensorType* const* inputs_;
  int input_count_;
  const std::vector<AttrValue>& attrs_;
  std::vector<TensorType>& outputs_;
};

class PADDOCK_API KernelContext {
 public:
  KernelContext(const OpDef& op, const Tensor* const* inputs, int input_count, Tensor* outputs, int output_count,
                const std::vector<AttrValue>& attrs, PreparedBlocks* prepared = nullptr)
      : op_(op),
        inputs_(inputs),
        input_count_(input_count),
        outputs_(outputs),
        output_count_(output_count),
        attrs_(attrs),
        prepared_(prepared) {}

  const OpDef& op() const { return op_; }
  int input_count() const { return input_count_; }
  int output_count() const { return output_count_; }
  const std::vector<AttrValue>& attrs() const { return attrs_; }
  PreparedBlocks* prepared_blocks() const { return prepared_; }
  bool has(int i) const { return i < input_count_ && inputs_[i] && *inputs_[i]; }
  bool has(std::string_view name) const { return has(op_.input_index(name)); }
  const Tensor& in(int i) const { return *inputs_[i]; }
  const Tensor& in(std::string_view name) const { return in(op_.input_index(name)); }
  const Tensor& out(int i) const { return outputs_[i]; }
  const Tensor& out(std::string_view name) const { return out(op_.output_index(name)); }
  // An optional input's data, or null.
  template <class T>
  const T* maybe(std::string_view name) const {
    int i = op_.input_index(name);
    return has(i) ? in(i).template data<T>() : nullptr;
  }

  // Where to keep what is derived from this input: from run to run when it is a constant of the program.
  Prepared prepared(std::string_view name) const;

  template <class T>
  T attr(std::string_view name) const {
    return detail::attr_as<T>(op_, attrs_, name);
  }
  std::array<int64_t, 2> pair(std::string_view name) const;
  int axis(std::string_view name, int rank) const;
  uint32_t axes_mask(std::string_view name, int rank) const;

 private:
  const OpDef& op_;
  const Tensor* const* inputs_;
  int input_count_;
  Tensor* outputs_;
  int output_count_;
  const std::vector<AttrValue>& attrs_;
  PreparedBlocks* prepared_;
};

// Runs an operator's kernel; the outputs are allocated.
PADDOCK_API void run_kernel(const KernelContext& context);

}  // namespace paddock
