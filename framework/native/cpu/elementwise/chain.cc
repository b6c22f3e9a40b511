// Kernel of chain: runs the tape's inner loops over blocks of y that stay in the core's first cache.
#include <cstring>
#include <optional>

#include "cpu/elementwise/broadcast.h"
#include "cpu/elementwise/micro_op.h"
#include "cpu/vec/vec_half.h"
#include "op/half.h"
#include "op/tape.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kBlock = 1024;     // elements: large against the call of a loop, small against the first cache
constexpr int64_t kTiledRow = 2048;  // rows up to so many elements are written out to be read at any offset
constexpr int64_t kWidest = 8;       // bytes of an element
constexpr int kMostArguments = 3;

// How a block of an operand is found.
struct Source {
  enum Mode : uint8_t {
    kWhole,     // as many elements as y: a window that moves along
    kTiled,     // a short row or a single number, written out often enough that every block is a window of it
    kGathered,  // anything else that broadcasts: copied block by block
  } mode = kWhole;
  DType dtype = DType::kF32;
  const char* base = nullptr;
  int64_t bytes = 0, period = 0;
  std::shared_ptr<Storage> own;
  std::optional<BroadcastPlan<1>> plan;

  int64_t size() const { return dtype_size(dtype); }
};

void repeat_row(Source& s, int64_t period) {
  const int64_t row = period * s.size(), all = (kBlock + period) * s.size();
  s.own = std::make_shared<Storage>(all);
  auto* to = static_cast<char*>(s.own->data());
  for (int64_t at = 0; at < all; at += row) std::memcpy(to + at, s.base, std::min(row, all - at));
  s.mode = Source::kTiled;
  s.period = period;
  s.base = to;
}

Source source_of(const Tensor& x, const Shape& y) {
  Source s{.dtype = x.dtype(), .base = x.data<char>(), .bytes = x.bytes(), .own = {}, .plan = {}};
  if (x.numel() == y.numel()) return s;
  s.plan = make_plan<1>(y, {&x.shape()});
  const bool repeats_rows = s.plan->rank == 2 && s.plan->stride[0][0] == 0 && s.plan->stride[0][1] == 1;
  if (x.numel() == 1 || (repeats_rows && x.numel() <= kTiledRow))
    repeat_row(s, x.numel());
  else
    s.mode = Source::kGathered;
  return s;
}

// What full_like and unreduce give: one number.
Source number_source(const Statement& s, const KernelContext& c) {
  const bool full = s.kind == Statement::kFullLike;
  const Tensor& given = full ? c.in(0) : c.in(s.args[0].index + 1);
  Tensor value({Shape{}, given.dtype()});
  if (full) {
    const Tensor like = value;
    const Tensor* in[] = {&like};
    run_kernel({*s.op, in, 1, &value, 1, s.attrs});
  } else {
    const bool average = std::get<bool>(s.attrs[s.op->attr_index("average")]);
    const double share = average ? 1.0 / static_cast<double>(c.out(0).numel()) : 1.0;
    const auto spread = [&](auto tag) {
      using T = typename decltype(tag)::type;
      using Wide = std::conditional_t<kIsHalf<T>, float, T>;
      *value.data<T>() = T(static_cast<Wide>(*given.data<T>()) * static_cast<Wide>(share));
    };
    is_half(value.dtype()) ? dispatch_half(value.dtype(), spread) : dispatch_float(value.dtype(), spread);
  }
  Source source{.dtype = value.dtype(), .base = value.data<char>(), .bytes = value.bytes(), .own = {}, .plan = {}};
  repeat_row(source, 1);
  return source;
}

// The numeric attributes of a statement, in order.
std::vector<double> numbers(const Statement& s) {
  std::vector<double> result;
  for (const AttrValue& v : s.attrs) {
    if (const bool* b = std::get_if<bool>(&v)) result.push_back(*b);
    if (const double* d = std::get_if<double>(&v)) result.push_back(*d);
  }
  return result;
}

// One inner loop. Operands are numbers of values: sources first, then results of steps.
struct Step {
  const OpDef* op;
  MicroRun run;
  std::vector<int> operands;
  std::vector<double> attrs;
  DType dtype;
  int slot = -1;  // the buffer of the result; that of the last step is used only when y cannot be written at once
};

// The tape with its operands and loops found, the same for all blocks.
class Chain {
 public:
  explicit Chain(const KernelContext& c) {
    const auto tape = parse_tape(c.op().name, c.attr<std::string>("tape"), c.input_count() - 1);
    const Shape& y = c.out(0).shape();
    for (int i = 1; i < c.input_count(); ++i) sources.push_back(source_of(c.in(i), y));
    std::vector<int> value_of;  // by statement; the results of steps are numbered when all sources are known
    int made = 0;
    for (const Statement& s : tape) {
      if (s.kind == Statement::kBroadcastLike) {
        value_of.push_back(s.args[0].index);
      } else if (s.kind == Statement::kElementwise) {
        value_of.push_back(-1 - made++);
      } else {
        value_of.push_back(static_cast<int>(sources.size()));
        sources.push_back(number_source(s, c));
      }
    }
    for (int& v : value_of)
      if (v < 0) v = static_cast<int>(sources.size()) - 1 - v;
    for (const Statement& s : tape)
      if (s.kind == Statement::kElementwise) add_step(s, value_of);
    assign_slots();
    part_from(c.out(0).data<char>());
  }

  bool is_source(int value) const { return value < static_cast<int>(sources.size()); }
  const Step& step_of(int value) const { return steps[value - sources.size()]; }
  DType dtype_of(int value) const { return is_source(value) ? sources[value].dtype : step_of(value).dtype; }

  std::vector<Source> sources;
  std::vector<Step> steps;
  int slots = 0;
  bool staged = false;  // the last step cannot write over an input whose place y took

 private:
  void add_step(const Statement& s, const std::vector<int>& value_of) {
    Step step{s.op, nullptr, {}, numbers(s), DType::kF32};
    std::vector<TensorType> types;
    std::vector<const TensorType*> pointers;
    for (const TapeArg& a : s.args) {
      step.operands.push_back(a.kind == TapeArg::kInput ? a.index : value_of[a.index]);
      types.push_back({Shape{kBlock}, dtype_of(step.operands.back())});
    }
    for (const auto& t : types) pointers.push_back(&t);
    step.dtype = infer_types(*s.op, pointers.data(), static_cast<int>(pointers.size()), s.attrs)[0].dtype;
    step.run = find_micro_op(s.op->name, types.back().dtype, step.dtype);
    steps.push_back(std::move(step));
  }

  // A buffer is free after the last step that reads it; a step takes over an operand's where its operator may.
  void assign_slots() {
    std::vector<int> last(steps.size(), -1), free;
    for (size_t k = 0; k < steps.size(); ++k)
      for (int v : steps[k].operands)
        if (!is_source(v)) last[v - sources.size()] = static_cast<int>(k);
    for (size_t k = 0; k < steps.size(); ++k) {
      Step& step = steps[k];
      std::vector<int> dying;
      for (size_t i = 0; i < step.operands.size(); ++i) {
        const int v = step.operands[i];
        if (is_source(v) || last[v - sources.size()] != static_cast<int>(k)) continue;
        const int slot = step_of(v).slot;
        if (step.slot < 0 && may_overwrite(step, static_cast<int>(i))) step.slot = slot;
        if (std::find(dying.begin(), dying.end(), slot) == dying.end()) dying.push_back(slot);
      }
      if (step.slot < 0 && !free.empty()) {
        step.slot = free.back();
        free.pop_back();
      }
      if (step.slot < 0) step.slot = slots++;
      std::erase(dying, step.slot);
      free.insert(free.end(), dying.begin(), dying.end());
    }
  }

  // Whether the step's result may stand where this operand stands, which no other operand of it reads.
  bool may_overwrite(const Step& step, int operand) const {
    const int v = step.operands[operand];
    if (dtype_size(dtype_of(v)) != dtype_size(step.dtype)) return false;
    if (std::count(step.operands.begin(), step.operands.end(), v) > 1) return false;
    return std::any_of(step.op->in_place.begin(), step.op->in_place.end(),
                       [&](const InPlace& fact) { return fact.input == operand; });
  }

  // Where y took the place of an input: the last step must be able to write over it, and an input that is read at
  // other places than it is written is set aside.
  void part_from(const char* y) {
    for (Source& s : sources) {
      if (s.base != y || s.mode == Source::kWhole) continue;
      s.own = std::make_shared<Storage>(s.bytes);
      s.base = static_cast<char*>(std::memcpy(s.own->data(), y, s.bytes));
    }
    const Step& end = steps.back();
    for (size_t k = 0; k < end.operands.size(); ++k)
      if (is_source(end.operands[k]) && sources[end.operands[k]].base == y)
        staged = staged || !may_overwrite(end, static_cast<int>(k));
  }
};

void gather(const Source& s, int64_t begin, int64_t n, char* to) {
  const int64_t size = s.size();
  const bool step = s.plan->stride[0][s.plan->rank - 1] != 0;
  run_range(*s.plan, begin, begin + n, [&](const std::array<int64_t, 1>& offset, int64_t at, int64_t count) {
    const char* from = s.base + offset[0] * size;
    char* place = to + (at - begin) * size;
    if (step)
      std::memcpy(place, from, count * size);
    else
      dispatch_bits(s.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        std::fill_n(reinterpret_cast<T*>(place), count, *reinterpret_cast<const T*>(from));
      });
  });
}

// One thread's buffers, and where each value of the block at hand stands.
class Worker {
 public:
  Worker(const Chain& chain, char* y) : chain_(chain), y_(y), at_(chain.sources.size() + chain.steps.size()) {
    int buffers = chain.slots;
    for (const Source& s : chain.sources) buffers += s.mode == Source::kGathered;
    memory_ = std::make_shared<Storage>(buffers * kBlock * kWidest);
    auto* memory = static_cast<char*>(memory_->data());
    auto place = at_.begin();
    int next = chain.slots;
    for (const Source& s : chain.sources)
      *place++ = s.mode == Source::kGathered ? memory + next++ * kBlock * kWidest : const_cast<char*>(s.base);
    for (const Step& s : chain.steps) *place++ = memory + s.slot * kBlock * kWidest;
  }

  void run(int64_t begin, int64_t n) {
    for (size_t i = 0; i < chain_.sources.size(); ++i) find(chain_.sources[i], begin, n, at_[i]);
    const int64_t place = begin * dtype_size(chain_.steps.back().dtype);
    if (!chain_.staged) at_.back() = y_ + place;
    char* const* result = at_.data() + chain_.sources.size();
    for (const Step& step : chain_.steps) {
      const void* in[kMostArguments];
      for (size_t i = 0; i < step.operands.size(); ++i) in[i] = at_[step.operands[i]];
      step.run(in, *result++, n, step.attrs.data());
    }
    if (chain_.staged) std::memcpy(y_ + place, at_.back(), n * dtype_size(chain_.steps.back().dtype));
  }

 private:
  static void find(const Source& s, int64_t begin, int64_t n, char*& at) {
    if (s.mode == Source::kWhole) at = const_cast<char*>(s.base) + begin * s.size();
    if (s.mode == Source::kTiled && s.period > 1) at = const_cast<char*>(s.base) + begin % s.period * s.size();
    if (s.mode == Source::kGathered) gather(s, begin, n, at);
  }

  const Chain& chain_;
  char* y_;
  std::shared_ptr<Storage> memory_;
  std::vector<char*> at_;  // sources, then results of steps
};

PADDOCK_CPU_KERNEL(chain) {
  const Tensor& y = c.out(0);
  if (y.numel() == 0) return;
  const Chain chain(c);
  // Long chunks, so that memory is read in long runs and the buffers pay; eight of them where there is work for as
  // many.
  const int64_t blocks = std::clamp<int64_t>(y.numel() / (8 * kBlock), 8, 32);
  parallel_for(y.numel(), blocks * kBlock, [&](int64_t begin, int64_t end) {
    Worker worker(chain, y.data<char>());
    for (; begin < end; begin += kBlock) worker.run(begin, std::min(kBlock, end - begin));
  });
}

}  // namespace
}  // namespace paddock::cpu
