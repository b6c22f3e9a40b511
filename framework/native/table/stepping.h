// The numbers of each step: what the rule reads, per row where Adam counts a row's own updates, and for a dense Adam
// the history that rows which missed steps replay.
#pragma once
#include <shared_mutex>
#include <vector>

#include "table/bucket.h"
#include "table/config.h"

namespace paddock::table {

class Stepping {
 public:
  explicit Stepping(const RuleConfig& config, int64_t dim);

  // Begins a step with this learning rate and factor on the gradients; rules that count take the next number. `dense`
  // Adam's callers hold `history()` alone here, and shared while they apply or catch up.
  RowNumbers begin(double lr, double scale);
  std::shared_mutex& history() { return history_; }
  bool replays() const { return config_.kind == RuleKind::kDenseAdam; }
  uint32_t step() const { return static_cast<uint32_t>(rates_.size()); }

  // One update of a row by a gradient [dim]. With dense Adam the row stands at step() - 1 before it.
  void apply(RowNumbers numbers, char* row, const float* grad, RowMeta& meta, const RowLayout& layout) const;
  // Gives a row that stands at `steps` those up to `step` that it missed, with gradients of zero; but none later than
  // most_replayed() after the last update, `touched`, so that what it holds does not depend on when it is read.
  void catch_up(float* value, float* state, uint32_t& steps, uint32_t touched, uint32_t step) const;
  // The step that a row stands at when it is born just before step `next`.
  uint32_t birth_step(uint32_t next) const;

  // The learning rate of each step so far, and its inverse; dense Adam's only.
  const std::vector<float>& rates() const { return rates_; }
  void set_rates(const std::vector<float>& rates);
  // Steps that a row replays one by one before what is left of its average of gradients cannot be seen; see
  // docs/explanation/tables.md.
  int64_t most_replayed() const { return most_replayed_; }

 private:
  void note(float lr);
  void forget_averages(float* state, uint32_t steps) const;
  uint32_t last_replayed(uint32_t touched, uint32_t step) const;

  RuleConfig config_;
  RowNumbers numbers_;
  RowStep step_ = nullptr;
  int64_t dim_, most_replayed_ = 0;
  std::vector<double> first_, second_;         // 1 - beta1^t and 1 / sqrt(1 - beta2^t) for t = 1, 2, ...
  std::vector<float> rates_;                   // learning rates
  std::vector<std::pair<float, float>> adam_;  // each step's rate and unbias
  std::vector<float> zeros_;
  std::shared_mutex history_;
};

}  // namespace paddock::table
