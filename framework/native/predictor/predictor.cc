// Checks before a run, the run, and reports about it.
#include "predictor/predictor.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "predictor/sealing/form.h"

namespace paddock::predictor {
namespace {

constexpr int64_t kMostRecords = 1'000'000;

// Inside, loops of this thread may take so many steps together.
class StepBudget {
 public:
  explicit StepBudget(int64_t steps) : before_(set_step_budget(steps)) {}
  ~StepBudget() { set_step_budget(before_); }
  StepBudget(const StepBudget&) = delete;
  StepBudget& operator=(const StepBudget&) = delete;

 private:
  int64_t before_;
};

// Inside, the recorder, if any, records this thread.
class Recording {
 public:
  explicit Recording(Recorder* recorder) : recorder_(recorder) {
    if (recorder_) recorder_->start();
  }
  ~Recording() {
    if (recorder_) recorder_->stop();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Recorder* recorder_;
};

std::string json_type(const TensorType& t) { return json_quoted(cat(t.dtype, t.shape)); }

// The message with the lines of source of the operations that it ends with, the innermost last.
std::string with_line(const Module& module, std::string text) {
  const size_t at = text.find(" [operation ");
  if (at == text.npos) return text;
  const size_t k = std::strtoull(text.c_str() + at + std::strlen(" [operation "), nullptr, 10);
  text.resize(at);
  if (k < module.lines().size() && !module.lines()[k].empty()) text += " (traced at " + module.lines()[k] + ")";
  return text;
}

}  // namespace

// Holds the predictor for one thread. What a thread of the process that this one was forked from held counts as free.
class Predictor::Turn {
 public:
  explicit Turn(Predictor& p) : p_(p) {
    const int64_t own = getpid();
    int64_t before = 0;
    while (!p_.user_.compare_exchange_weak(before, own, std::memory_order_acquire))
      if (before == own)
        throw BusyError("predictor: another thread is using it; give each thread a clone (paddock_clone)");
  }
  ~Turn() { p_.user_.store(0, std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Predictor& p_;
};

std::unique_ptr<Predictor> Predictor::load(const std::string& folder, const Options& options) {
  Export e = read_export(folder, options.limits, options.map_weights, options.keys);
  auto parsed = std::make_unique<const JsonDocument>(e.extra);
  Options kept = options;
  kept.keys = {};
  auto about = std::make_shared<const About>(
      About{std::move(e.inputs), std::move(e.outputs), std::move(e.fixed_by), sealing::hexadecimal(e.signer),
            std::move(e.extra), std::move(parsed), std::move(e.state_names), std::move(kept), folder});
  return std::unique_ptr<Predictor>(new Predictor(std::move(about), std::move(e.module), std::move(e.states)));
}

std::unique_ptr<Predictor> Predictor::clone() {
  std::vector<Tensor> states;
  if (!states_.empty()) {
    Turn turn(*this);  // a run would write what is copied here
    for (const Tensor& t : states_) {
      t.expect_whole();
      states.emplace_back(t.type());
      if (t.bytes()) std::memcpy(states.back().raw(), t.raw(), static_cast<size_t>(t.bytes()));
    }
  }
  return std::unique_ptr<Predictor>(new Predictor(about_, module_->twin(), std::move(states)));
}

void Predictor::check(const std::vector<Tensor>& given) const {
  const auto& wanted = inputs();
  if (given.size() != wanted.size())
    fail(ErrorKind::kAttribute, "predictor: got ", given.size(), " inputs; the model takes ", wanted.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const TensorType &type = given[i].type(), &like = wanted[i].type;
    if (type == like) continue;
    if (type.dtype != like.dtype)
      fail(ErrorKind::kDType, "predictor: ", wanted[i].name, " is ", type.dtype, type.shape, "; the model takes ",
           like.dtype, like.shape);
    if (type.shape.rank() != like.shape.rank())
      fail(ErrorKind::kShape, "predictor: ", wanted[i].name, " is ", type.dtype, type.shape, "; the model takes ",
           like.dtype, like.shape);
    if (fixed_shapes())
      fail(ErrorKind::kShape, "predictor: ", wanted[i].name, " has shape ", type.shape,
           "; this model was exported for ", like.shape, " and takes no other, because ", about_->fixed_by);
  }
}

int64_t Predictor::result_bytes() const {
  const auto plan = module_->executable().last_plan();
  int64_t bytes = 0;
  if (plan)
    for (int v : module_->executable().program().results) bytes += plan->types[static_cast<size_t>(v)].bytes();
  return bytes;
}

void Predictor::check_memory(const std::vector<Tensor>& given) {
  const int64_t allowed = about_->options.memory_bytes;
  if (!allowed) return;
  const auto same = [](const Tensor& t, const TensorType& type) { return t.type() == type; };
  if (std::equal(given.begin(), given.end(), fitting_.begin(), fitting_.end(), same) && !given.empty()) return;
  module_->executable().prepare(given, states_);
  const int64_t bytes = module_->arena_bytes() + result_bytes();
  if (bytes > allowed)
    throw MemoryError(cat("predictor: a run with these inputs plans ", bytes, " bytes; ", allowed,
                          " are allowed (option memory_bytes)"));
  fitting_.clear();
  for (const Tensor& t : given) fitting_.push_back(t.type());
}

void Predictor::run_once(const std::vector<Tensor>& given) {
  Executable& e = module_->executable();
  try {
    const StepBudget budget(about_->options.limits.loop_steps);
    const Recording recording(recorder_.get());
    results_ = e.run(given, states_);
  } catch (...) {
    for (int i : e.torn()) {
      const std::string& name = about_->state_names[static_cast<size_t>(i)];
      states_[static_cast<size_t>(i)].storage()->tear(cat(name.empty() ? cat("state ", i) : name,
                                                          ": a run failed when it had begun to update it; load the "
                                                          "model again"));
    }
    throw;
  }
}

void Predictor::run(std::vector<Tensor> given) {
  Turn turn(*this);
  results_.clear();
  has_results_ = false;
  check(given);
  check_memory(given);
  try {
    run_once(given);
  } catch (const Error& e) {
    throw Error(e.kind(), with_line(*module_, e.what()));
  }
  has_results_ = true;
}

Tensor Predictor::result(int index) {
  Turn turn(*this);
  if (!has_results_) fail(ErrorKind::kState, "predictor: there are no outputs; run it first");
  if (index < 0 || index >= static_cast<int>(results_.size()))
    fail(ErrorKind::kAttribute, "predictor: there is no output ", index, "; it has ", results_.size());
  return results_[static_cast<size_t>(index)];
}

void Predictor::release_results() {
  Turn turn(*this);
  results_.clear();
  has_results_ = false;
}

const std::string& Predictor::extra_at(const std::string& pointer) {
  Turn turn(*this);
  const auto [part, is_new] = parts_.try_emplace(pointer);
  if (!is_new) return part->second;
  const Json* found = about_->parsed->root().at(pointer);
  if (!found) {
    parts_.erase(part);
    fail(ErrorKind::kAttribute, "predictor: the model's metadata have nothing at '", pointer, "'");
  }
  part->second = found->is(Json::Kind::kString) ? found->string() : about_->parsed->source(*found);
  return part->second;
}

const std::string& Predictor::memory_report() {
  Turn turn(*this);
  const auto plan = module_->executable().last_plan();
  if (!plan) fail(ErrorKind::kState, "predictor: it has not run yet, so there is no plan to report on");
  const ProgramDesc& program = module_->executable().program();
  int64_t weights = 0, state_bytes = 0;
  for (const Tensor& t : program.constants) weights += t.bytes();
  for (const Tensor& t : states_) state_bytes += t.bytes();
  std::string& text = report_;
  text = cat("{\"values_bytes\": ", plan->naive_bytes, ", \"arena_bytes\": ", plan->arena_bytes,
             ", \"lower_bound_bytes\": ", plan->lower_bound,
             ", \"block_bytes\": ", module_->arena_bytes() - plan->arena_bytes, ", \"result_bytes\": ", result_bytes(),
             ", \"weight_bytes\": ", weights, ", \"prepared_bytes\": ", module_->executable().prepared_bytes(),
             ", \"state_bytes\": ", state_bytes, ", \"in_place\": ", plan->in_place_count, ", \"largest\": [");
  std::vector<std::pair<int64_t, std::string>> rows;
  for (const auto& ins : program.instructions)
    for (int v : ins.outputs) {
      const TensorType& t = plan->types[static_cast<size_t>(v)];
      rows.emplace_back(t.bytes(), cat("{\"operator\": ", json_quoted(ins.op->name), ", \"type\": ", json_type(t),
                                       ", \"bytes\": ", t.bytes(), "}"));
    }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (rows.size() > 20) rows.resize(20);
  for (size_t i = 0; i < rows.size(); ++i) text += (i ? ", " : "") + rows[i].second;
  return text += "]}";
}

void Predictor::set_profiling(bool on) {
  Turn turn(*this);
  if (on && !recorder_) recorder_ = std::make_unique<Recorder>(kMostRecords);
  if (!on) recorder_.reset();
}

const std::string& Predictor::profile() {
  Turn turn(*this);
  if (!recorder_) fail(ErrorKind::kState, "predictor: it is not profiled; call paddock_set_profiling first");
  std::map<int64_t, const Module*> modules;
  module_->list(modules);
  std::string& text = profile_;
  text = "[";
  for (const Record& r : recorder_->take()) {
    const auto found = modules.find(r.program);
    const auto k = static_cast<size_t>(r.instruction);
    const bool known = found != modules.end() && r.instruction >= 0 && k < found->second->lines().size();
    text += cat(text.size() > 1 ? ",\n" : "", "{\"operator\": ", json_quoted(r.op),
                ", \"line\": ", json_quoted(known ? found->second->lines()[k] : ""),
                ", \"implementation\": ", json_quoted(r.implementation),
                ", \"microseconds\": ", static_cast<double>(r.end_ns - r.begin_ns) / 1000, "}");
  }
  return text += "]";
}

}  // namespace paddock::predictor
