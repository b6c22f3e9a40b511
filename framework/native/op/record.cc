// Recording of kernels for a profile.
#include "op/record.h"

#include <chrono>

#include "op/context.h"
#include "op/half.h"

namespace paddock {
namespace {

thread_local Recorder* active_recorder = nullptr;

// Stops a kernel that is only asked.
struct Answer {
  std::string text;
};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Recorder* Recorder::active() { return active_recorder; }

void Recorder::start() {
  if (active_recorder) fail(ErrorKind::kNotSupported, "profile: this thread is recorded by another profile already");
  active_recorder = this;
}

void Recorder::stop() {
  if (active_recorder == this) active_recorder = nullptr;
}

void Recorder::note(std::string text) {
  if (asked_) throw Answer{std::move(text)};
  if (!implementation_.empty()) implementation_ += ", ";
  implementation_ += text;
}

void Recorder::run(const KernelContext& c, KernelFn kernel) {
  if (taken_ >= limit_) {
    ++dropped_;
    return kernel(c);
  }
  ++taken_;
  Record record{c.op().name, program_, instruction_, 0, 0, {}, {}, {}, {}, c.attrs()};
  for (int i = 0; i < c.input_count(); ++i) {
    record.present.push_back(c.has(i));
    record.inputs.push_back(c.has(i) ? c.in(i).type() : TensorType{});
  }
  for (int i = 0; i < c.output_count(); ++i) record.outputs.push_back(c.out(i).type());
  at(-1, -1);
  implementation_.clear();
  record.begin_ns = now_ns();
  kernel(c);
  record.end_ns = now_ns();
  record.implementation = std::move(implementation_);
  records_.push_back(std::move(record));
}

std::string implementation_of(const OpDef& op, const std::vector<const TensorType*>& inputs,
                              const std::vector<AttrValue>& attrs) {
  const auto nothing = std::make_shared<Storage>(nullptr, 0, [] {});
  std::vector<Tensor> in, out;
  std::vector<const Tensor*> pointers;
  const int count = static_cast<int>(inputs.size());
  const HalfTypes as_float32(op, inputs.data(), count);  // half types are computed as float32 is
  for (int i = 0; i < count; ++i) in.push_back(inputs[i] ? Tensor(*as_float32.inputs()[i], nothing, 0) : Tensor());
  for (const Tensor& t : in) pointers.push_back(&t);
  for (const TensorType& type : infer_types(op, as_float32.inputs(), count, attrs)) out.emplace_back(type, nothing, 0);
  const KernelContext context(op, pointers.data(), count, out.data(), static_cast<int>(out.size()), attrs);
  Recorder asking(0);
  asking.asked_ = true;
  Recorder* const before = std::exchange(active_recorder, &asking);
  std::string answer;
  try {
    op.kernel(context);
  } catch (const Answer& a) {
    answer = a.text;
  } catch (...) {
    active_recorder = before;
    throw;
  }
  active_recorder = before;
  return answer;
}

}  // namespace paddock
