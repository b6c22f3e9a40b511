// Attribute access and the checks that shape rules share.
#include "op/context.h"

#include "core/subnormal.h"
#include "op/half.h"
#include "op/numbers.h"
#include "op/record.h"

namespace paddock {
namespace {

std::array<int64_t, 2> to_pair(const OpDef& op, const std::vector<AttrValue>& attrs, std::string_view name) {
  const auto& v = std::get<Ints>(attrs[op.attr_index(name)]);
  if (v.size() == 1) return {v[0], v[0]};
  if (v.size() == 2) return {v[0], v[1]};
  fail(ErrorKind::kAttribute, op.name, ": ", name, " has ", v.size(), " numbers; takes one, or two (height, width)");
}

int to_axis(const OpDef& op, std::string_view name, int64_t axis, int rank) {
  int64_t a = axis < 0 ? axis + rank : axis;
  if (a < 0 || a >= rank)
    fail(ErrorKind::kAttribute, op.name, ": ", name, " is ", axis, " but must lie in [", -rank, ", ", rank - 1,
         "] for ", rank, " axes");
  return static_cast<int>(a);
}

uint32_t to_mask(const OpDef& op, const std::vector<AttrValue>& attrs, std::string_view name, int rank) {
  const auto& axes = std::get<Ints>(attrs[op.attr_index(name)]);
  if (axes.empty()) return (1u << rank) - 1;
  uint32_t mask = 0;
  for (int64_t a : axes) {
    uint32_t bit = 1u << to_axis(op, name, a, rank);
    if (mask & bit) fail(ErrorKind::kAttribute, op.name, ": ", name, " names axis ", a, " twice");
    mask |= bit;
  }
  return mask;
}

}  // namespace

namespace detail {
void bad_attr(const OpDef& op, std::string_view name) {
  fail(ErrorKind::kInternal, op.name, ": it has no attribute '", name, "'");
}
}  // namespace detail

std::array<int64_t, 2> InferContext::pair(std::string_view name) const { return to_pair(op_, attrs_, name); }
std::array<int64_t, 2> KernelContext::pair(std::string_view name) const { return to_pair(op_, attrs_, name); }
int InferContext::axis(std::string_view name, int rank, bool allow_end) const {
  return to_axis(op_, name, attr<int64_t>(name), rank + allow_end);
}
int KernelContext::axis(std::string_view name, int rank) const { return to_axis(op_, name, attr<int64_t>(name), rank); }
uint32_t InferContext::axes_mask(std::string_view name, int rank) const { return to_mask(op_, attrs_, name, rank); }
uint32_t KernelContext::axes_mask(std::string_view name, int rank) const { return to_mask(op_, attrs_, name, rank); }

void InferContext::out(int i, const Shape& shape, DType dtype) {
  if (static_cast<int>(outputs_.size()) <= i) outputs_.resize(i + 1);
  outputs_[i] = {shape, dtype};
}

void InferContext::expect_rank(std::string_view name, int rank) const {
  if (shape(name).rank() != rank)
    shape_error(name, " has ", shape(name).rank(), " axes (shape ", shape(name), ") but must have ", rank);
}

void InferContext::expect_rank_at_least(std::string_view name, int rank) const {
  if (shape(name).rank() < rank)
    shape_error(name, " has ", shape(name).rank(), " axes (shape ", shape(name), ") but needs at least ", rank);
}

void InferContext::expect_shape(std::string_view name, const Shape& expected) const {
  if (!(shape(name) == expected)) shape_error(name, " has shape ", shape(name), " but must have ", expected);
}

void InferContext::expect_dtype(std::string_view name, DType expected) const {
  if (in(name).dtype != expected) dtype_error(name, " is ", in(name).dtype, " but must be ", expected);
}

void InferContext::expect_floating(std::string_view name) const {
  DType t = in(name).dtype;
  if (t != DType::kF32 && t != DType::kF64) dtype_error(name, " is ", t, " but must be float32 or float64; use cast");
}

void InferContext::expect_index(std::string_view name) const {
  DType t = in(name).dtype;
  if (t != DType::kI32 && t != DType::kI64) dtype_error(name, " is ", t, " but must be int32 or int64; use cast");
}

void InferContext::expect_same_dtype() const {
  int first = -1;
  for (int i = 0; i < input_count_; ++i) {
    if (!inputs_[i]) continue;
    if (first < 0) first = i;
    if (in(i).dtype != in(first).dtype) {
      auto arg = [&](int k) { return op_.inputs[std::min<size_t>(k, op_.inputs.size() - 1)].name; };
      dtype_error(arg(i), " is ", in(i).dtype, " but ", arg(first), " is ", in(first).dtype,
                  "; cast one to the other's type");
    }
  }
}

Prepared KernelContext::prepared(std::string_view name) const {
  const int i = op_.input_index(name);
  return prepared_ && has(i) && prepared_->constant[i] ? Prepared(prepared_, i, in(i).type()) : Prepared();
}

void run_kernel(const KernelContext& context) {
  const OpDef& op = context.op();
  KernelFn kernel = kernel_for(context);
  if (!kernel) fail(ErrorKind::kNotSupported, op.name, ": it has no kernel");
  const FlushScope flush;
  Recorder* recorder = op.runs_blocks ? nullptr : Recorder::active();
  if (recorder)
    recorder->run(context, kernel);
  else
    kernel(context);
  const NumberCheck check = number_check();
  if (check != NumberCheck::kOff && !op.runs_blocks) check_numbers(context, check);
}

}  // namespace paddock
