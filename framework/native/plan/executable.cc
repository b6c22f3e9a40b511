// Binding values to memory and running the instructions.
#include "plan/executable.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "op/context.h"
#include "op/record.h"

namespace paddock {
namespace {

constexpr size_t kKeptPlans = 32;
constexpr int kNotStarted = -1;

std::vector<TensorType> types_of(const std::vector<Tensor>& inputs, const std::vector<Tensor>& states) {
  std::vector<TensorType> types;
  types.reserve(inputs.size() + states.size());
  for (const auto& t : inputs) types.push_back(t.type());
  for (const auto& t : states) types.push_back(t.type());
  return types;
}

// Which inputs of each instruction are constants, or views of constants.
std::shared_ptr<std::vector<PreparedBlocks>> find_constants(const ProgramDesc& program) {
  std::vector<bool> constant(program.value_count, false);
  std::fill(constant.begin() + program.first_constant(), constant.begin() + program.first_temporary(), true);
  auto prepared = std::make_shared<std::vector<PreparedBlocks>>(program.instructions.size());
  for (size_t k = 0; k < prepared->size(); ++k) {
    const Instruction& ins = program.instructions[k];
    for (int v : ins.inputs) (*prepared)[k].constant.push_back(v != kAbsent && constant[v]);
    if (ins.op->is_view) constant[ins.outputs[0]] = constant[ins.inputs[0]];
  }
  return prepared;
}

// Types of states are part of a plan's key, so this holds for every run of the plan.
void expect_states_keep_types(const ProgramDesc& program, const Plan& plan) {
  for (const auto& u : program.updates) {
    const TensorType &state = plan.input_types[program.input_count + u.state], &value = plan.types[u.value];
    if (!(value == state))
      fail(ErrorKind::kShape, "program: state ", u.state, " of type ", state.dtype, " ", state.shape,
           " would be updated with ", value.dtype, " ", value.shape, "; a state keeps its shape and type");
  }
}

int64_t next_id() {
  static std::atomic<int64_t> made{0};
  return made++;
}

// All executables of this process, for a child of a fork. Never destroyed: Python may hold executables to its end.
struct Living {
  std::mutex mutex;
  std::unordered_set<Executable*> all;
};

Living& living() {
  static Living* instance = [] {
    auto let_go = [] { living().mutex.unlock(); };
    auto start_in_child = [] {
      living().mutex.unlock();
      for (Executable* e : living().all) e->after_fork();
    };
    pthread_atfork([] { living().mutex.lock(); }, let_go, start_in_child);
    return new Living;
  }();
  return *instance;
}

// Makes it anew where another thread may have left it half-changed, without touching what it holds.
template <class T, class... Arguments>
void start_anew(T& what, Arguments&&... arguments) {
  new (&what) T(std::forward<Arguments>(arguments)...);
}

// Whether no thread holds one of the locks, in a child of a fork, where it would never let go.
bool all_free(std::vector<PreparedBlocks>& prepared) {
  return std::all_of(prepared.begin(), prepared.end(), [](PreparedBlocks& p) {
    if (!p.mutex.try_lock()) return false;
    p.mutex.unlock();
    return true;
  });
}

}  // namespace

Executable::Executable(ProgramDesc program, const Executable* twin)
    : program_(std::move(program)),
      prepared_(twin ? twin->prepared_ : find_constants(program_)),
      values_(program_.value_count),
      refusing_(refusing_instructions(program_)),
      id_(next_id()) {
  std::lock_guard lock(living().mutex);
  living().all.insert(this);
}

Executable::~Executable() {
  std::lock_guard lock(living().mutex);
  living().all.erase(this);
}

void Executable::after_fork() {
  if (runner_ == std::this_thread::get_id()) return;  // it forked inside of its own run, and goes on
  if (mutex_.try_lock()) {
    mutex_.unlock();
    if (!all_free(*prepared_)) start_anew(prepared_, find_constants(program_));  // a thread of a clone made one
    return;
  }
  start_anew(mutex_);
  runner_ = std::thread::id();
  start_anew(torn_);
  if (running_ != kNotStarted)
    for (const auto& u : program_.updates) torn_.push_back(u.state);
  running_ = kNotStarted;
  start_anew(plans_);
  start_anew(prepared_, find_constants(program_));
  start_anew(arena_);
  start_anew(values_, static_cast<size_t>(program_.value_count));
}

class Executable::Turn {
 public:
  explicit Turn(Executable& e) : e_(e) {
    if (e.runner_ == std::this_thread::get_id())
      fail(ErrorKind::kNotSupported, "program: a Python function that it calls has called it again; it cannot recur");
    e.mutex_.lock();
    e.runner_ = std::this_thread::get_id();
  }
  ~Turn() {
    e_.runner_ = std::thread::id();
    e_.mutex_.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Executable& e_;
};

const Plan& Executable::find_plan(const std::vector<Tensor>& inputs, const std::vector<Tensor>& states) {
  if (static_cast<int>(inputs.size()) != program_.input_count ||
      static_cast<int>(states.size()) != program_.state_count)
    fail(ErrorKind::kShape, "program: got ", inputs.size(), " inputs and ", states.size(), " states; it takes ",
         program_.input_count, " and ", program_.state_count);
  return find_plan(types_of(inputs, states));
}

const Plan& Executable::find_plan(std::vector<TensorType> key) {
  auto it = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& p) { return p.input_types == key; });
  if (it != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, it);
  } else {
    Plan plan = make_plan(program_, refusing_, std::move(key));
    expect_states_keep_types(program_, plan);
    plans_.push_front(std::move(plan));
    ++plans_made_;
    if (plans_.size() > kKeptPlans) plans_.pop_back();
  }
  return plans_.front();
}

void Executable::prepare(const std::vector<Tensor>& inputs, const std::vector<Tensor>& states) {
  Turn turn(*this);
  find_plan(inputs, states);
}

std::optional<Plan> Executable::last_plan() {
  Turn turn(*this);
  return plans_.empty() ? std::nullopt : std::optional(plans_.front());
}

int64_t Executable::kept_bytes() {
  Turn turn(*this);
  return (arena_ ? static_cast<int64_t>(arena_->bytes()) : 0) + prepared_bytes();
}

int64_t Executable::prepared_bytes() const {
  int64_t bytes = 0;
  for (auto& p : *prepared_) {
    std::lock_guard lock(p.mutex);
    for (const auto& b : p.blocks) bytes += static_cast<int64_t>(b.bytes->bytes());
  }
  return bytes;
}

void Executable::forget_plans() {
  Turn turn(*this);
  plans_.clear();
  for (auto& p : *prepared_) {
    std::lock_guard lock(p.mutex);
    p.blocks.clear();
  }
}

void Executable::bind(const Plan& plan, const std::vector<Tensor>& inputs, const std::vector<Tensor>& states,
                      const std::vector<Tensor>& results) {
  if (!arena_ || static_cast<int64_t>(arena_->bytes()) < plan.arena_bytes) {
    for (auto& v : values_) v = {};
    arena_.reset();  // give the old one back before asking for a larger one
    arena_ = std::make_shared<Storage>(plan.arena_bytes);
  }
  for (int v = 0; v < program_.value_count; ++v) {
    const Place& place = plan.places[v];
    const TensorType& type = plan.types[v];
    switch (place.kind) {
      case Place::kInput:
        values_[v] = inputs[place.index].reshaped(type);
        break;
      case Place::kState:
        values_[v] = states[place.index].reshaped(type);
        break;
      case Place::kConstant:
        values_[v] = program_.constants[place.index].reshaped(type);
        break;
      case Place::kArena:
        values_[v] = Tensor(type, arena_, place.offset);
        break;
      case Place::kResult:
        values_[v] = results[place.index].reshaped(type);
        break;
      case Place::kNone:
        values_[v] = {};
        break;
    }
  }
}

void Executable::execute(const Plan& plan) {
  const Tensor absent;
  std::vector<const Tensor*> in;
  std::vector<Tensor> out;
  Recorder* recorder = Recorder::active();
  for (size_t k = 0; k < program_.instructions.size(); ++k) {
    const Instruction& ins = program_.instructions[k];
    if (!ins.outputs.empty() && plan.root[ins.outputs[0]] != ins.outputs[0]) continue;  // a view
    in.clear();
    out.clear();
    for (int v : ins.inputs) in.push_back(v == kAbsent ? &absent : &values_[v]);
    for (int v : ins.outputs) out.push_back(values_[v]);
    running_ = static_cast<int>(k);
    if (recorder) recorder->at(id_, static_cast<int64_t>(k));
    try {
      run_kernel({*ins.op, in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()), ins.attrs,
                  &(*prepared_)[k]});
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kNumerics) throw;
      fail(e.kind(), e.what(), " [operation ", k, "]");  // so that Python can add the user's line
    }
  }
}

void Executable::finish(const Plan& plan, const std::vector<Tensor>& states, const std::vector<Tensor>& results) {
  for (size_t i = 0; i < results.size(); ++i)
    if (plan.result_copied[i]) std::memcpy(results[i].raw(), values_[program_.results[i]].raw(), results[i].bytes());
  // States may swap values: what stands in a state's memory is set aside before the first is written.
  std::vector<std::pair<void*, Tensor>> pending;
  for (size_t i = 0; i < program_.updates.size(); ++i) {
    if (!plan.update_copied[i]) continue;
    Tensor from = values_[program_.updates[i].value];
    if (plan.places[program_.updates[i].value].kind == Place::kState) {
      Tensor aside(from.type());
      std::memcpy(aside.raw(), from.raw(), from.bytes());
      from = std::move(aside);
    }
    pending.emplace_back(states[program_.updates[i].state].raw(), std::move(from));
  }
  for (const auto& [to, from] : pending) std::memcpy(to, from.raw(), from.bytes());
}

void Executable::note_torn(const Plan& plan) {
  for (size_t i = 0; i < program_.updates.size(); ++i)
    if (plan.update_written_at[i] >= 0 && plan.update_written_at[i] <= running_)
      torn_.push_back(program_.updates[i].state);
}

std::vector<Tensor> Executable::run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& states) {
  Turn turn(*this);
  torn_.clear();
  for (const Tensor& t : inputs) t.expect_whole();
  for (const Tensor& t : states) t.expect_whole();
  const Plan& plan = find_plan(inputs, states);
  std::vector<Tensor> results;
  results.reserve(program_.results.size());
  for (int v : program_.results) results.emplace_back(plan.types[v]);
  run_plan(plan, inputs, states, results);
  return results;
}

void Executable::run_plan(const Plan& plan, const std::vector<Tensor>& inputs, const std::vector<Tensor>& states,
                          const std::vector<Tensor>& results) {
  struct Release {  // do not keep the caller's tensors alive until the next run
    std::vector<Tensor>& values;
    ~Release() {
      for (auto& v : values) v = {};
    }
  } release{values_};
  running_ = kNotStarted;
  try {
    bind(plan, inputs, states, results);
    execute(plan);
    finish(plan, states, results);
    running_ = kNotStarted;
  } catch (...) {
    note_torn(plan);
    throw;
  }
}

void Executable::run_into(const std::vector<Tensor>& inputs, const std::vector<Tensor>& results) {
  Turn turn(*this);
  run_plan(find_plan(inputs, {}), inputs, {}, results);
}

std::vector<TensorType> Executable::result_types(const std::vector<TensorType>& inputs) {
  Turn turn(*this);
  if (static_cast<int>(inputs.size()) != program_.input_count || program_.state_count)
    fail(ErrorKind::kInternal, "block: got ", inputs.size(), " inputs; it takes ", program_.input_count,
         " and can have no states");
  const Plan& plan = find_plan(inputs);
  std::vector<TensorType> types;
  for (int v : program_.results) types.push_back(plan.types[v]);
  return types;
}

}  // namespace paddock
