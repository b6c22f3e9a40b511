// Recording of kernels for a profile.
#include "op/record.h"

#include <chrono>

#include "op/context.h"

namespace paddock {
namespace {

thread_local Recorder* active_recorder = nullptr;

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

}  // namespace paddock
