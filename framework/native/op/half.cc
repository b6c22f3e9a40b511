// Calls with half types: what shape rules see of them, and the way through copies in float32.
#include "op/half.h"

#include <algorithm>

#include "op/context.h"

namespace paddock {
namespace {

const ArgSpec& spec_of(const std::vector<ArgSpec>& specs, int i) {
  return specs[std::min<size_t>(static_cast<size_t>(i), specs.size() - 1)];
}

bool reads_or_writes_half(const KernelContext& c) {
  for (int i = 0; i < c.input_count(); ++i)
    if (c.has(i) && is_half(c.in(i).dtype())) return true;
  for (int i = 0; i < c.output_count(); ++i)
    if (is_half(c.out(i).dtype())) return true;
  return false;
}

void convert(const Tensor& from, const Tensor& to) {
  static const OpDef& cast = find_op("cast");
  const Tensor* in[] = {&from};
  Tensor out = to;
  const std::vector<AttrValue> attrs{std::string(dtype_name(to.dtype()))};
  cast.kernels[static_cast<int>(Device::kCPU)]({cast, in, 1, &out, 1, attrs});
}

Tensor float32_like(const Tensor& t) { return Tensor({t.shape(), DType::kF32}); }

// Runs the float32 kernel on float32 copies of what is half.
void through_float32(const KernelContext& c) {
  std::vector<Tensor> in(c.input_count()), out;
  std::vector<const Tensor*> pointers;
  for (int i = 0; i < c.input_count(); ++i) {
    if (c.has(i)) in[i] = is_half(c.in(i).dtype()) ? float32_like(c.in(i)) : c.in(i);
    pointers.push_back(&in[i]);
    if (c.has(i) && is_half(c.in(i).dtype()) && !spec_of(c.op().inputs, i).shape_only) convert(c.in(i), in[i]);
  }
  for (int i = 0; i < c.output_count(); ++i)
    out.push_back(is_half(c.out(i).dtype()) ? float32_like(c.out(i)) : c.out(i));
  c.op().kernels[static_cast<int>(Device::kCPU)](
      {c.op(), pointers.data(), c.input_count(), out.data(), c.output_count(), c.attrs(), c.prepared_blocks()});
  for (int i = 0; i < c.output_count(); ++i)
    if (is_half(c.out(i).dtype())) convert(out[i], c.out(i));
}

}  // namespace

HalfTypes::HalfTypes(const OpDef& op, const TensorType* const* inputs, int count) : op_(op), given_(inputs) {
  if (!op.takes_half) return;
  const bool any = std::any_of(inputs, inputs + count, [](const TensorType* t) { return t && is_half(t->dtype); });
  if (any) find(count);
}

void HalfTypes::find(int count) {
  const ArgSpec* first = nullptr;
  for (int i = 0; i < count; ++i) {
    const ArgSpec& spec = spec_of(op_.inputs, i);
    if (!given_[i] || spec.shape_only || !is_half(given_[i]->dtype)) continue;
    if (half_ && *half_ != given_[i]->dtype)
      fail(ErrorKind::kDType, op_.name, ": ", spec.name, " is ", given_[i]->dtype, " but ", first->name, " is ", *half_,
           "; cast one to the other's type");
    half_ = given_[i]->dtype;
    first = &spec;
  }
  for (int i = 0; i < count && half_; ++i) {
    const ArgSpec& spec = spec_of(op_.inputs, i);
    if (!given_[i] || spec.shape_only || !is_floating(given_[i]->dtype) || given_[i]->dtype == *half_) continue;
    const bool fits = spec.wide || given_[i]->shape.rank() == 0;
    if (!fits || given_[i]->dtype != DType::kF32)
      fail(ErrorKind::kDType, op_.name, ": ", spec.name, " is ", given_[i]->dtype, " but ", first->name, " is ", *half_,
           fits ? ", beside which only float32 may stand; use cast" : "; cast one to the other's type");
  }
  types_.resize(count);
  pointers_.resize(count);
  for (int i = 0; i < count; ++i) {
    if (!given_[i]) continue;
    types_[i] = *given_[i];
    if (is_half(types_[i].dtype)) types_[i].dtype = DType::kF32;
    pointers_[i] = &types_[i];
  }
}

void HalfTypes::narrow(std::vector<TensorType>& outputs) const {
  if (!half_) return;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].dtype == DType::kF32 && !spec_of(op_.outputs, static_cast<int>(i)).wide) outputs[i].dtype = *half_;
}

KernelFn kernel_for(const KernelContext& c, Device device) {
  const OpDef& op = c.op();
  const int d = static_cast<int>(device);
  if (!op.takes_half || device != Device::kCPU || !op.kernels[d] || !reads_or_writes_half(c)) return op.kernels[d];
  return op.half_kernels[d] ? op.half_kernels[d] : &through_float32;
}

}  // namespace paddock
