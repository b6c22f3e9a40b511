// A program ready to run: plans for the shapes seen lately, one arena, and the loop over its instructions.
#pragma once
#include <atomic>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "op/prepared.h"
#include "plan/plan.h"

namespace paddock {

class PADDOCK_API Executable {
 public:
  // `twin`: a program of the same instructions and constants, with which it shares what kernels derive from constants.
  explicit Executable(ProgramDesc program, const Executable* twin = nullptr);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Runs once. `states` are read and, where the program updates them, overwritten in their own memory: nobody else may
  // read that. A run that fails leaves them as they were, but for those that `torn` says.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& states);
  // The states that the last run, which failed, may have written in part. Empty after a run that did not fail.
  const std::vector<int>& torn() const { return torn_; }
  void forget_torn() { torn_.clear(); }
  void spare(int state) { std::erase(torn_, state); }
  // The states that a run updates.
  const std::vector<ProgramDesc::Update>& updates() const { return program_.updates; }
  // Whether some kernel may refuse the data it is given.
  bool may_refuse() const { return !refusing_.empty(); }
  // Runs once, without states, into results of the types that result_types() says.
  void run_into(const std::vector<Tensor>& inputs, const std::vector<Tensor>& results);
  // The types of the results for inputs of these types, without states; makes the plan when there is none.
  std::vector<TensorType> result_types(const std::vector<TensorType>& inputs);
  const ProgramDesc& program() const { return program_; }
  // Makes the plan for these types when there is none, without running.
  void prepare(const std::vector<Tensor>& inputs, const std::vector<Tensor>& states);
  // A copy of the plan that was used or prepared last, if any, for reports and tests.
  std::optional<Plan> last_plan();
  // Plans made since the start: a test's and a benchmark's view of the cache.
  int64_t plans_made() const { return plans_made_; }
  // Bytes that stay from run to run: the arena, and what kernels derived from constants.
  int64_t kept_bytes();
  // Bytes that kernels derived from constants and keep.
  int64_t prepared_bytes() const;
  // Drops the plans and what kernels derived from constants; the next run makes both again.
  void forget_plans();
  // Tells the records of this program from others'.
  int64_t id() const { return id_; }
  // In a child of a fork: forgets a run of a thread that the child lacks. All states that it updates are torn.
  void after_fork();

 private:
  // Holds the lock; refuses the thread that holds it already.
  class Turn;
  const Plan& find_plan(std::vector<TensorType> types);
  const Plan& find_plan(const std::vector<Tensor>& inputs, const std::vector<Tensor>& states);
  void run_plan(const Plan& plan, const std::vector<Tensor>& inputs, const std::vector<Tensor>& states,
                const std::vector<Tensor>& results);
  void bind(const Plan& plan, const std::vector<Tensor>& inputs, const std::vector<Tensor>& states,
            const std::vector<Tensor>& results);
  void execute(const Plan& plan);
  void note_torn(const Plan& plan);
  void finish(const Plan& plan, const std::vector<Tensor>& states, const std::vector<Tensor>& results);

  ProgramDesc program_;
  std::list<Plan> plans_;                                  // most recent first
  std::shared_ptr<std::vector<PreparedBlocks>> prepared_;  // of every instruction
  std::shared_ptr<Storage> arena_;
  std::vector<Tensor> values_;
  std::vector<int> torn_;
  int running_ = -1;           // the instruction at hand
  std::vector<int> refusing_;  // instructions
  int64_t plans_made_ = 0, id_;
  std::mutex mutex_;
  std::atomic<std::thread::id> runner_{};  // who runs it now
};

}  // namespace paddock
