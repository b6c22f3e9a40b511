// Shape rules and kernels of control flow.
#include "plan/control.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "op/context.h"

namespace paddock {
namespace {

thread_local int64_t steps_left = std::numeric_limits<int64_t>::max();
std::atomic<void (*)()> interrupt_check{nullptr};

// Between steps: what ends a loop that would not end by itself.
class Watch {
 public:
  explicit Watch(const OpDef& op) : op_(op) {}
  void step() {
    if (--steps_left < 0)
      fail(ErrorKind::kNotSupported, op_.name,
           ": the program's loops take more steps than are allowed; if you trust it, raise the limit: "
           "framework.limits.allow(loop_steps=...), in C paddock_options_set(options, \"loop_steps\", ...)");
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(20);
    if (const auto check = interrupt_check.load()) check();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const OpDef& op_;
  Clock::time_point next_ = Clock::now() + std::chrono::milliseconds(20);
};

Executable& block(const OpDef& op, size_t i) { return *static_cast<const ControlOp&>(op).blocks[i]; }

std::vector<TensorType> input_types(const InferContext& c, int from, int to) {
  std::vector<TensorType> types;
  for (int i = from; i < to; ++i) types.push_back(c.in(i));
  return types;
}

void expect_condition(const InferContext& c, const TensorType& t, const char* what) {
  if (t.dtype != DType::kBool || t.numel() != 1)
    c.shape_error(what, " is ", t.dtype, " ", t.shape, " but must be one bool");
}

// Values that a block carries keep their types from step to step.
void expect_carried(const InferContext& c, const std::vector<TensorType>& results, int carried) {
  if (static_cast<int>(results.size()) < carried)
    c.shape_error("its block gives ", results.size(), " values but carries ", carried);
  for (int i = 0; i < carried; ++i)
    if (!(results[i] == c.in(i)))
      c.shape_error("value ", i, " enters as ", c.in(i).dtype, " ", c.shape(i), " but leaves as ", results[i].dtype,
                    " ", results[i].shape, "; what is carried from step to step keeps its shape and type");
}

int carried_of(const InferContext& c) {
  const auto carried = c.attr<int>("carried");
  if (carried < 0 || carried > c.input_count())
    c.attr_error("carried is ", carried, " but it has ", c.input_count(), " inputs");
  return carried;
}

bool truth(const Tensor& t) { return *t.data<bool>(); }

void copy(const Tensor& from, const Tensor& to) { std::memcpy(to.raw(), from.raw(), to.bytes()); }

std::vector<Tensor> inputs_from(const KernelContext& c, int from) {
  std::vector<Tensor> list;
  for (int i = from; i < c.input_count(); ++i) list.push_back(c.in(i));
  return list;
}

void append(std::vector<Tensor>& list, const std::vector<Tensor>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

// Two sets of memory for what is carried: a step reads one and writes the other.
class Turns {
 public:
  Turns(const KernelContext& c, int carried) {
    for (int i = 0; i < carried; ++i) {
      now_.push_back(c.in(i));
      for (auto& set : sets_) set.emplace_back(c.in(i).type());
    }
  }
  const std::vector<Tensor>& now() const { return now_; }
  const std::vector<Tensor>& next() const { return sets_[turn_]; }
  void advance() {
    now_ = sets_[turn_];
    turn_ = 1 - turn_;
  }

 private:
  std::vector<Tensor> now_, sets_[2];
  int turn_ = 0;
};

void infer_cond(InferContext& c) {
  expect_condition(c, c.in(0), "pred");
  const auto types = input_types(c, 1, c.input_count());
  const auto yes = block(c.op(), 0).result_types(types), no = block(c.op(), 1).result_types(types);
  if (yes.size() != no.size())
    c.shape_error("one branch gives ", yes.size(), " values, the other ", no.size(), "; both must give as many");
  for (size_t i = 0; i < yes.size(); ++i) {
    if (!(yes[i] == no[i]))
      c.shape_error("one branch gives ", yes[i].dtype, " ", yes[i].shape, " as value ", i, ", the other ", no[i].dtype,
                    " ", no[i].shape, "; both must give the same shape and type");
    c.out(static_cast<int>(i), yes[i].shape, yes[i].dtype);
  }
}

void run_cond(const KernelContext& c) {
  std::vector<Tensor> out;
  for (int i = 0; i < c.output_count(); ++i) out.push_back(c.out(i));
  block(c.op(), truth(c.in(0)) ? 0 : 1).run_into(inputs_from(c, 1), out);
}

void infer_loop(InferContext& c) {
  const int carried = carried_of(c);
  const auto types = input_types(c, 0, c.input_count());
  const auto more = block(c.op(), 0).result_types(types);
  if (more.size() != 1) c.shape_error("its condition gives ", more.size(), " values but must give one bool");
  expect_condition(c, more[0], "its condition");
  const auto results = block(c.op(), 1).result_types(types);
  expect_carried(c, results, carried);
  if (static_cast<int>(results.size()) != carried)
    c.shape_error("its body gives ", results.size(), " values but carries ", carried);
  if (c.attr<int64_t>("max_iterations") < 0) c.attr_error("max_iterations is below 0");
  for (int i = 0; i < carried; ++i) c.out(i, c.shape(i), c.in(i).dtype);
}

void run_loop(const KernelContext& c) {
  const int carried = c.output_count();
  const auto most = c.attr<int64_t>("max_iterations");
  const auto captured = inputs_from(c, carried);
  std::vector<TensorType> types;
  for (int i = 0; i < c.input_count(); ++i) types.push_back(c.in(i).type());
  const std::vector<Tensor> more{Tensor(block(c.op(), 0).result_types(types)[0])};
  Turns state(c, carried);
  Watch watch(c.op());
  for (int64_t i = 0;; ++i) {
    watch.step();
    auto in = state.now();
    append(in, captured);
    block(c.op(), 0).run_into(in, more);
    if (!truth(more[0])) break;
    if (i == most) {
      if (!c.attr<bool>("must_end")) break;
      fail(ErrorKind::kNotSupported, c.op().name, ": it does not end after ", most, " steps");
    }
    block(c.op(), 1).run_into(in, state.next());
    state.advance();
  }
  for (int i = 0; i < carried; ++i) copy(state.now()[i], c.out(i));
}

TensorType row_type(const TensorType& column) {
  TensorType row = column;
  row.shape.erase(0);
  return row;
}

Tensor row(const Tensor& column, int64_t i) {
  const TensorType type = row_type(column.type());
  const int64_t start = static_cast<char*>(column.raw()) - static_cast<char*>(column.storage()->data());
  return Tensor(type, column.storage(), start + i * type.bytes());
}

void infer_scan(InferContext& c) {
  const int carried = carried_of(c), columns = c.attr<int>("columns");
  if (columns < 1 || carried + columns > c.input_count())
    c.attr_error("columns is ", columns, " but it has ", c.input_count(), " inputs, of which ", carried,
                 " are carried; it needs at least one column");
  auto types = input_types(c, 0, c.input_count());
  int64_t steps = -1;
  for (int i = carried; i < carried + columns; ++i) {
    if (c.shape(i).rank() == 0) c.shape_error("column ", i - carried, " has no axes; it must have one for the steps");
    if (steps >= 0 && c.shape(i)[0] != steps)
      c.shape_error("column ", i - carried, " has ", c.shape(i)[0], " rows, the first one ", steps,
                    "; all must have as many");
    steps = c.shape(i)[0];
    types[i] = row_type(types[i]);
  }
  const auto results = block(c.op(), 0).result_types(types);
  expect_carried(c, results, carried);
  for (int i = 0; i < static_cast<int>(results.size()); ++i) {
    Shape shape = results[i].shape;
    if (i >= carried) {
      shape = {steps};
      for (int64_t d : results[i].shape) shape.push_back(d);
    }
    c.out(i, shape, results[i].dtype);
  }
}

void run_scan(const KernelContext& c) {
  const int carried = c.attr<int>("carried"), columns = c.attr<int>("columns");
  const int64_t steps = c.in(carried).shape()[0];
  const bool reverse = c.attr<bool>("reverse");
  const auto captured = inputs_from(c, carried + columns);
  Turns state(c, carried);
  Watch watch(c.op());
  for (int64_t t = 0; t < steps; ++t) {
    watch.step();
    const int64_t at = reverse ? steps - 1 - t : t;
    std::vector<Tensor> in = state.now(), out = state.next();
    for (int i = carried; i < carried + columns; ++i) in.push_back(row(c.in(i), at));
    for (int i = carried; i < c.output_count(); ++i) out.push_back(row(c.out(i), at));
    append(in, captured);
    block(c.op(), 0).run_into(in, out);
    state.advance();
  }
  for (int i = 0; i < carried; ++i) copy(state.now()[i], c.out(i));
}

// Whether something in a block may refuse its data, or a loop may take too many steps.
bool block_or_loop_fails(const OpDef& op, const std::vector<AttrValue>& attrs) {
  const int must_end = op.attr_index("must_end");
  if (must_end >= 0 && std::get<bool>(attrs[must_end])) return true;
  const auto& blocks = static_cast<const ControlOp&>(op).blocks;
  return std::any_of(blocks.begin(), blocks.end(), [](const Executable* b) { return b->may_refuse(); });
}

}  // namespace

int64_t set_step_budget(int64_t steps) { return std::exchange(steps_left, steps); }

void set_interrupt_check(void (*check)()) { interrupt_check = check; }

ControlOp::ControlOp(const std::string& kind, std::vector<Executable*> its_blocks) : blocks(std::move(its_blocks)) {
  name = kind;
  family = "control";
  runs_blocks = true;
  const bool is_cond = kind == "cond", is_loop = kind == "loop";
  if (!is_cond && !is_loop && kind != "scan") fail(ErrorKind::kInternal, kind, ": there is no such control flow");
  if (blocks.size() != (kind == "scan" ? 1u : 2u)) fail(ErrorKind::kInternal, kind, ": wrong number of blocks");
  read_signature(*this, is_cond ? "pred, xs... -> ys..." : "xs... -> ys...");
  if (!is_cond) attr("carried", AttrType::kInt, "How many of its inputs are carried from step to step.");
  if (is_loop) {
    attr("max_iterations", AttrType::kInt, "At most so many steps.");
    attr("must_end", AttrType::kBool, false, "Fail where it would take more steps.");
  }
  if (kind == "scan") {
    attr("columns", AttrType::kInt, "How many of its inputs are read row by row.");
    attr("reverse", AttrType::kBool, false, "From the last row to the first.");
  }
  infer(is_cond ? infer_cond : is_loop ? infer_loop : infer_scan);
  cpu(is_cond ? run_cond : is_loop ? run_loop : run_scan);
  fails_late(&block_or_loop_fails);
}

}  // namespace paddock
