// Rules of tables: one row, by one gradient.
#include <cmath>

#include "cpu/optim/adam_rule.h"
#include "table/row_rules.h"

namespace paddock::cpu {
namespace {

using table::RowNumbers;

// value -= lr * (scale * g + l2 * value)
void sgd(const RowNumbers& r, float* value, float*, const float* g, int64_t dim) {
#pragma GCC ivdep
  for (int64_t i = 0; i < dim; ++i) value[i] -= r.lr * plus_decay(r.scale * g[i], r.l2, value[i]);
}

// Duchi et al. 2011: sum += g^2; value -= lr * g / (sqrt(sum) + eps)
void adagrad(const RowNumbers& r, float* value, float* sum, const float* g, int64_t dim) {
#pragma GCC ivdep
  for (int64_t i = 0; i < dim; ++i) {
    const float slope = plus_decay(r.scale * g[i], r.l2, value[i]), next = sum[i] + slope * slope;
    sum[i] = next;
    value[i] -= r.lr * slope / (std::sqrt(next) + r.eps);
  }
}

// One sum for a row, as Paddle's SparseAdaGradSGDRule: value -= lr * g * sqrt(initial / (initial + sum)), then sum +=
// the mean of g^2. sum[0] holds initial + sum.
void adagrad_shared(const RowNumbers& r, float* value, float* sum, const float* g, int64_t dim) {
  const float rate = r.lr * std::sqrt(r.initial / sum[0]);
  float squares = 0;
  for (int64_t i = 0; i < dim; ++i) {
    const float slope = plus_decay(r.scale * g[i], r.l2, value[i]);
    value[i] -= rate * slope;
    squares += slope * slope;
  }
  sum[0] += squares / static_cast<float>(dim);
}

void adam(const RowNumbers& r, float* value, float* state, const float* g, int64_t dim) {
  const AdamNumbers<float> numbers{r.scale, r.b1, r.b2, r.new1, r.new2, r.rate, r.unbias, r.eps, r.l2, 1.0f};
  const float* in[] = {value, g, state, state + dim};
  float* out[] = {value, state, state + dim};
  adam_elements(numbers, in, out, dim);
}

// McMahan et al. 2013, algorithm 1, from any initial value: z is first made such that it stands for that value.
void ftrl(const RowNumbers& r, float* value, float* state, const float* g, int64_t dim) {
  float *z = state, *n = state + dim;
  for (int64_t i = 0; i < dim; ++i) {
    const float slope = r.scale * g[i], before = std::sqrt(n[i]);
    if (n[i] == 0) z[i] = -value[i] * (r.beta / r.lr + r.l2) - std::copysign(value[i] == 0 ? 0.0f : r.l1, value[i]);
    const float sum = n[i] + slope * slope, after = std::sqrt(sum);
    z[i] += slope - (after - before) / r.lr * value[i];
    n[i] = sum;
    value[i] = std::abs(z[i]) <= r.l1 ? 0.0f : -(z[i] - std::copysign(r.l1, z[i])) / ((r.beta + after) / r.lr + r.l2);
  }
}

}  // namespace
}  // namespace paddock::cpu

extern "C" PADDOCK_API const paddock::table::RowRules& paddock_row_rules() {
  using namespace paddock::cpu;
  static const paddock::table::RowRules rules{{&sgd, &adagrad, &adagrad_shared, &adam, &adam, &ftrl}};
  return rules;
}
