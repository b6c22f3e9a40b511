// How one row of a table is updated: numbers that the table works out, loops that each instruction set compiles.
#pragma once
#include <cstdint>

#include "core/api.h"

namespace paddock::table {

enum class RuleKind : uint8_t { kSgd, kAdagrad, kAdagradShared, kAdam, kDenseAdam, kFtrl };
inline constexpr int kRuleKinds = 6;

// Numbers of one step. A rule reads those that it names in cpu/table_rules.cc.
struct RowNumbers {
  float scale = 1, lr = 0, l1 = 0, l2 = 0, beta = 0, initial = 0, eps = 0;
  float b1 = 0, b2 = 0, new1 = 0, new2 = 0, rate = 0, unbias = 0;  // Adam's, as in cpu/optim/adam_rule.h
};

// value, grad: [dim]; state: [state_words(kind, dim)].
using RowStep = void (*)(const RowNumbers& numbers, float* value, float* state, const float* grad, int64_t dim);

// What an instruction set's library hands over.
struct RowRules {
  RowStep step[kRuleKinds];
};

// Floats of optimizer state beside a value of `dim` floats.
constexpr int64_t state_words(RuleKind kind, int64_t dim) {
  switch (kind) {
    case RuleKind::kSgd:
      return 0;
    case RuleKind::kAdagrad:
      return dim;
    case RuleKind::kAdagradShared:
      return 1;
    default:
      return 2 * dim;
  }
}

// Those of the instruction set in use.
PADDOCK_API const RowRules& row_rules();
PADDOCK_API void set_row_rules(const RowRules& rules);

}  // namespace paddock::table
