// Adam's factors and the replay of missed steps.
#include "table/stepping.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace paddock::table {
namespace {

constexpr size_t kKeptFactors = 1 << 16;
constexpr double kUnseen = 0x1p-40;  // the share of a row's average of gradients below which it is left out

double first_factor(double beta1, double t) { return 1 - std::pow(beta1, t); }
double second_factor(double beta2, double t) { return 1 / std::sqrt(1 - std::pow(beta2, t)); }

bool is_adam(RuleKind kind) { return kind == RuleKind::kAdam || kind == RuleKind::kDenseAdam; }

}  // namespace

Stepping::Stepping(const RuleConfig& config, int64_t dim) : config_(config), dim_(dim) {
  numbers_.l1 = static_cast<float>(config.l1);
  numbers_.l2 = static_cast<float>(config.l2);
  numbers_.beta = static_cast<float>(config.beta);
  numbers_.initial = static_cast<float>(config.initial);
  numbers_.eps = static_cast<float>(config.eps);
  if (!is_adam(config.kind)) return;
  numbers_.b1 = static_cast<float>(config.beta1);
  numbers_.b2 = static_cast<float>(config.beta2);
  numbers_.new1 = static_cast<float>(1 - config.beta1);
  numbers_.new2 = static_cast<float>(1 - config.beta2);
  if (replays()) {
    zeros_.assign(static_cast<size_t>(dim), 0.0f);
    most_replayed_ = config.beta1 > 0 ? static_cast<int64_t>(std::ceil(std::log(kUnseen) / std::log(config.beta1))) : 1;
    return;
  }
  for (size_t t = 1; t <= kKeptFactors; ++t) {
    first_.push_back(first_factor(config.beta1, static_cast<double>(t)));
    second_.push_back(second_factor(config.beta2, static_cast<double>(t)));
  }
}

RowNumbers Stepping::begin(double lr, double scale) {
  RowNumbers n = numbers_;
  n.lr = static_cast<float>(lr);
  n.scale = static_cast<float>(scale);
  if (replays()) {
    if (step() == ~uint32_t{0} - 1) fail(ErrorKind::kState, "table: dense Adam has made 2^32 - 2 steps, all it can");
    note(n.lr);
    std::tie(n.rate, n.unbias) = adam_.back();
  }
  return n;
}

void Stepping::note(float lr) {
  rates_.push_back(lr);
  const auto t = static_cast<double>(rates_.size());
  adam_.emplace_back(static_cast<float>(static_cast<double>(lr) / first_factor(config_.beta1, t)),
                     static_cast<float>(second_factor(config_.beta2, t)));
}

void Stepping::set_rates(const std::vector<float>& rates) {
  rates_.clear();
  adam_.clear();
  for (float lr : rates) note(lr);
}

void Stepping::apply(RowNumbers n, char* row, const float* grad, RowMeta& meta, const RowLayout& layout) const {
  float *value = value_of(row), *state = value + layout.dim;
  if (replays()) {
    catch_up(value, state, meta.steps, meta.touched, step() - 1);
    forget_averages(state, step() - 1 - meta.steps);
    meta.steps = meta.touched = step();
  } else {
    if (meta.steps != ~uint32_t{0}) ++meta.steps;
    if (config_.kind == RuleKind::kAdam) {
      const size_t t = meta.steps;
      const double first = t <= kKeptFactors ? first_[t - 1] : first_factor(config_.beta1, static_cast<double>(t));
      n.rate = static_cast<float>(static_cast<double>(n.lr) / first);
      n.unbias =
          static_cast<float>(t <= kKeptFactors ? second_[t - 1] : second_factor(config_.beta2, static_cast<double>(t)));
    }
  }
  row_rules().step[static_cast<int>(config_.kind)](n, value, state, grad, layout.dim);
}

// What `steps` more steps without a gradient leave of a row's averages.
void Stepping::forget_averages(float* state, uint32_t steps) const {
  if (steps == 0) return;
  const double keep1 = std::pow(config_.beta1, steps), keep2 = std::pow(config_.beta2, steps);
  for (int64_t j = 0; j < dim_; ++j) {
    state[j] = static_cast<float>(state[j] * keep1);
    state[dim_ + j] = static_cast<float>(state[dim_ + j] * keep2);
  }
}

// With weight decay no step is without effect.
uint32_t Stepping::last_replayed(uint32_t touched, uint32_t step) const {
  if (config_.l2 != 0) return step;
  return static_cast<uint32_t>(std::min<int64_t>(step, int64_t{touched} + most_replayed_));
}

void Stepping::catch_up(float* value, float* state, uint32_t& steps, uint32_t touched, uint32_t step) const {
  const uint32_t last = last_replayed(touched, step);
  if (steps >= last) return;
  if (config_.l2 != 0 || std::any_of(state, state + 2 * dim_, [](float x) { return x != 0; })) {
    RowNumbers n = numbers_;
    const RowStep rule = row_rules().step[static_cast<int>(RuleKind::kDenseAdam)];
    for (uint32_t s = steps; s < last; ++s) {
      std::tie(n.rate, n.unbias) = adam_[s];
      rule(n, value, state, zeros_.data(), dim_);
    }
  }
  steps = last;
}

uint32_t Stepping::birth_step(uint32_t next) const { return replays() && config_.l2 == 0 ? next - 1 : 0; }

}  // namespace paddock::table
