// Calls with half types: what shape rules see of them, and the way through copies in float32.
#include "op/half.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

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
  cast.kernel({cast, in, 1, &out, 1, attrs});
}

// Where the copies of one call lie: one block a thread that grows to the largest call's. Blocks of the allocator's many
// sizes, each kept for the next call of that size, would take the memory that half types save.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(data_); }

  std::shared_ptr<Storage> take(size_t bytes) {
    if (busy_) return std::make_shared<Storage>(bytes);  // a kernel that runs others
    if (bytes > bytes_) grow(bytes);
    busy_ = true;
    return std::make_shared<Storage>(data_, bytes, [this] { busy_ = false; });
  }

 private:
  void grow(size_t bytes) {
    constexpr size_t kPage = size_t{2} << 20;
    std::free(std::exchange(data_, nullptr));
    bytes_ = 0;
    const size_t whole = (bytes + kPage - 1) / kPage * kPage;
    data_ = std::aligned_alloc(kPage, whole);
    if (!data_) throw std::bad_alloc();
    madvise(data_, whole, MADV_HUGEPAGE);
    bytes_ = whole;
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
  bool busy_ = false;
};

// Deals out tensors of float32 from one block of the workspace.
class Copies {
 public:
  explicit Copies(size_t bytes) {
    thread_local Workspace workspace;
    block_ = workspace.take(std::max<size_t>(bytes, 1));
  }
  static size_t bytes(const Tensor& t) { return (static_cast<size_t>(t.numel()) * sizeof(float) + 63) / 64 * 64; }
  Tensor like(const Tensor& t) {
    Tensor copy({t.shape(), DType::kF32}, block_, static_cast<int64_t>(next_));
    next_ += bytes(t);
    return copy;
  }

 private:
  std::shared_ptr<Storage> block_;
  size_t next_ = 0;
};

// The input whose copy output `i` may take over, or -1.
int replaced_input(const KernelContext& c, int i, const std::vector<bool>& taken) {
  for (const InPlace& fact : c.op().in_place) {
    const int k = fact.input;
    if (fact.output == i && k < c.input_count() && c.has(k) && !taken[k] && is_half(c.in(k).dtype()) &&
        c.in(k).shape() == c.out(i).shape())
      return k;
  }
  return -1;
}

// Runs the float32 kernel on float32 copies of what is half.
void through_float32(const KernelContext& c) {
  const int inputs = c.input_count(), outputs = c.output_count();
  const auto half_in = [&](int i) { return c.has(i) && is_half(c.in(i).dtype()); };
  std::vector<bool> taken(inputs, false);
  std::vector<int> replaced(outputs, -1);
  size_t bytes = 0;
  for (int i = 0; i < inputs; ++i)
    if (half_in(i)) bytes += Copies::bytes(c.in(i));
  for (int i = 0; i < outputs; ++i) {
    if (!is_half(c.out(i).dtype())) continue;
    replaced[i] = replaced_input(c, i, taken);
    if (replaced[i] >= 0)
      taken[replaced[i]] = true;
    else
      bytes += Copies::bytes(c.out(i));
  }
  Copies copies(bytes);
  std::vector<Tensor> in(inputs), out(outputs);
  std::vector<const Tensor*> pointers;
  for (int i = 0; i < inputs; ++i) {
    if (c.has(i)) in[i] = half_in(i) ? copies.like(c.in(i)) : c.in(i);
    pointers.push_back(&in[i]);
    if (half_in(i) && !spec_of(c.op().inputs, i).shape_only) convert(c.in(i), in[i]);
  }
  for (int i = 0; i < outputs; ++i)
    out[i] = !is_half(c.out(i).dtype()) ? c.out(i) : replaced[i] >= 0 ? in[replaced[i]] : copies.like(c.out(i));
  c.op().kernel({c.op(), pointers.data(), inputs, out.data(), outputs, c.attrs(), c.prepared_blocks()});
  for (int i = 0; i < outputs; ++i)
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

KernelFn kernel_for(const KernelContext& c) {
  const OpDef& op = c.op();
  if (!op.takes_half || !op.kernel || !reads_or_writes_half(c)) return op.kernel;
  return op.half_kernel ? op.half_kernel : &through_float32;
}

}  // namespace paddock
