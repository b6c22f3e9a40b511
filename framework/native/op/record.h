// What a profile sees: which kernel ran when, on what, and which implementation it chose. Costs one thread-local read
// a kernel while nobody records.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "op/op.h"

namespace paddock {

class KernelContext;

// One run of one kernel. Times are of the steady clock, in nanoseconds.
struct Record {
  std::string op;                // by name: an operator made for one call may be gone when the record is read
  int64_t program, instruction;  // whose instruction it was; -1 for an eager call
  int64_t begin_ns, end_ns;
  std::string implementation;  // what the kernel noted, such as "winograd F(4x4,3x3)"
  std::vector<TensorType> inputs, outputs;
  std::vector<bool> present;  // of each input; an absent one has no type
  std::vector<AttrValue> attrs;
};

// Collects what the thread that started it runs, in programs and eagerly, until it is stopped.
class PADDOCK_API Recorder {
 public:
  explicit Recorder(int64_t limit) : limit_(limit) {}
  ~Recorder() { stop(); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The one that records this thread, or null.
  static Recorder* active();
  void start();  // throws when another one records this thread
  void stop();

  // The next kernel runs as this instruction of this program.
  void at(int64_t program, int64_t instruction) {
    program_ = program;
    instruction_ = instruction;
  }
  // Runs a kernel and keeps its record; beyond the limit it is only counted.
  void run(const KernelContext& context, KernelFn kernel);
  // Notes of one kernel are joined. While somebody asks (see implementation_of), throws the first one at them.
  void note(std::string text);

  // The records so far, which are given away; what was dropped stays counted.
  std::vector<Record> take() { return std::exchange(records_, {}); }
  int64_t dropped() const { return dropped_; }

 private:
  int64_t limit_, taken_ = 0, dropped_ = 0;
  int64_t program_ = -1, instruction_ = -1;
  friend std::string implementation_of(const OpDef&, const std::vector<const TensorType*>&,
                                       const std::vector<AttrValue>&);
  bool asked_ = false;
  std::string implementation_;
  std::vector<Record> records_;
};

// Which way a kernel would take for inputs and outputs of these types; null for an absent input. The kernel runs up to
// its first note, so this is for those that note before they touch data: the convolutions. "" where there is no note.
PADDOCK_API std::string implementation_of(const OpDef& op, const std::vector<const TensorType*>& inputs,
                                          const std::vector<AttrValue>& attrs);

// Says which of its ways to work the running kernel has chosen; several notes are joined. Call it on the thread that
// runs the kernel, not inside parallel_for.
template <class... Args>
void note_implementation(const Args&... args) {
  if (Recorder* r = Recorder::active()) r->note(cat(args...));
}

}  // namespace paddock
