// Connectionist temporal classification, a sequence at a time, in log space. The states of a sequence of L labels are
// S = 2 L + 1: a blank before, between and behind the labels. States that no path has reached stand at kNever, which is
// finite, so that no difference of two is NaN. Scores are kept relative to the largest of their row, and the shifts are
// summed in double: long sequences lose no precision.
#include <cmath>
#include <limits>

#include "cpu/elementwise/rows.h"
#include "cpu/movement/indices.h"
#include "cpu/sequence/offsets.h"

namespace paddock::cpu {
namespace {

template <class T>
constexpr T kNever = T(-1e30);

constexpr int64_t kBefore = 2;  // states at kNever before the first one and behind the last

// The labels of one sequence as states, and the scores of its rows. Rows of states have room for kBefore more on both
// sides.
template <class T>
class Paths {
 public:
  Paths(const T* logits, int64_t rows, int64_t classes, const int64_t* labels, int64_t count, int64_t blank)
      : rows_(rows), classes_(classes), states_(2 * count + 1), logits_(logits), room_(states_ + 2 * kBefore) {
    class_.assign(static_cast<size_t>(states_), blank);
    // What a step over the state between costs: nothing between labels that differ, else kNever.
    over_.assign(static_cast<size_t>(room_), kNever<T>);
    for (int64_t l = 0; l < count; ++l) {
      class_[static_cast<size_t>(2 * l + 1)] = labels[l];
      if (l && labels[l] != labels[l - 1]) over_[static_cast<size_t>(kBefore + 2 * l + 1)] = T(0);
    }
    bases_.resize(static_cast<size_t>(rows));
    for (int64_t t = 0; t < rows; ++t) {
      const T* row = logits + t * classes;
      const T largest = row_max(row, classes);
      bases_[static_cast<size_t>(t)] = largest + math::log(row_sum_exp(row, classes, largest));
    }
  }

  int64_t rows() const { return rows_; }
  int64_t states() const { return states_; }
  int64_t room() const { return room_; }
  int64_t class_of(int64_t s) const { return class_[static_cast<size_t>(s)]; }
  T base(int64_t t) const { return bases_[static_cast<size_t>(t)]; }

  // scores[s]: log probability of each state's class in row t.
  void scores(int64_t t, T* scores) const {
    const T *row = logits_ + t * classes_, base = bases_[static_cast<size_t>(t)];
    for (int64_t s = 0; s < states_; ++s) scores[s] = std::max(row[class_of(s)] - base, kNever<T>);
  }

  // A row of states of which none is reached.
  void clear(T* row) const { std::fill(row, row + room_, kNever<T>); }

  // y[s] = log(exp(x[s]) + exp(x[s - 1]) + exp(x[s - 2] + over[s])) + scores[s], less the largest, which is returned.
  T forward(const T* x, const T* scores, T* y) const {
    const T *here = x + kBefore, *over = over_.data() + kBefore;
    T* to = y + kBefore;
#pragma GCC ivdep
    for (int64_t s = 0; s < states_; ++s) to[s] = log_sum(here[s], here[s - 1], here[s - 2] + over[s]) + scores[s];
    return shift(y);
  }

  // y[s] = log(exp(z[s]) + exp(z[s + 1]) + exp(z[s + 2] + over[s + 2])) with z = x + scores, less the largest. x
  // becomes z.
  void backward(T* x, const T* scores, T* y) const {
    T* here = x + kBefore;
    const T* over = over_.data() + kBefore;
#pragma GCC ivdep
    for (int64_t s = 0; s < states_; ++s) here[s] += scores[s];
    T* to = y + kBefore;
#pragma GCC ivdep
    for (int64_t s = 0; s < states_; ++s) to[s] = log_sum(here[s], here[s + 1], here[s + 2] + over[s + 2]);
    shift(y);
  }

  // The first row of the forward algorithm: a blank or the first label.
  T begin(const T* scores, T* y) const {
    clear(y);
    for (int64_t s = 0; s < std::min<int64_t>(2, states_); ++s) y[kBefore + s] = scores[s];
    return shift(y);
  }

  // The last row of the backward algorithm: the last label or a blank.
  void end(T* y) const {
    clear(y);
    for (int64_t s = std::max<int64_t>(0, states_ - 2); s < states_; ++s) y[kBefore + s] = T(0);
  }

  // The log of the sum over all paths, with what all rows were shifted by; -infinity where there is none.
  double total(const T* last, double shifted) const {
    const T *row = last + kBefore, end = row[states_ - 1];
    const T sum = states_ > 1 ? log_sum(end, row[states_ - 2], kNever<T>) : end;
    return reached(sum) ? shifted + sum : -std::numeric_limits<double>::infinity();
  }

  static bool reached(T score) { return score > kNever<T> / 2; }

 private:
  static T log_sum(T a, T b, T c) {
    const T ab = a > b ? a : b, largest = ab > c ? ab : c;
    return largest + math::log(math::exp(a - largest) + math::exp(b - largest) + math::exp(c - largest));
  }

  // Takes the largest of a row of states from all of them; 0 where none is reached.
  T shift(T* y) const {
    T* row = y + kBefore;
    const T largest = row_max(row, states_);
    if (!reached(largest)) return T(0);
    for (int64_t s = 0; s < states_; ++s) row[s] -= largest;
    return largest;
  }

  int64_t rows_, classes_, states_;
  const T* logits_;
  int64_t room_;
  std::vector<int64_t> class_;
  std::vector<T> over_, bases_;
};

// Loss of one sequence; `alphas` keeps [rows, room] where it has room for that, else two rows in turn.
template <class T>
double negative_log(const Paths<T>& p, int64_t labels, std::vector<T>& alphas, bool keep) {
  if (!p.rows()) return labels ? std::numeric_limits<double>::infinity() : 0.0;
  alphas.assign(static_cast<size_t>((keep ? p.rows() : 2) * p.room()), kNever<T>);
  std::vector<T> scores(static_cast<size_t>(p.states()));
  T* now = alphas.data();
  double shifted = 0;
  for (int64_t t = 0; t < p.rows(); ++t) {
    p.scores(t, scores.data());
    if (t == 0) {
      shifted += p.begin(scores.data(), now);
      continue;
    }
    const T* before = now;
    now = keep || now == alphas.data() ? now + p.room() : alphas.data();
    shifted += p.forward(before, scores.data(), now);
  }
  return -p.total(now, shifted);
}

// The inputs of both operators.
struct Given {
  CheckedOffsets rows, labels;
  CheckedIndices classes;
  int64_t K, blank;
  bool zero_infinity;

  explicit Given(const KernelContext& c)
      : rows(c, "offsets", c.in("logits").shape()[0]),
        labels(c, "label_offsets", c.in("labels").shape()[0]),
        classes(c, "labels", c.in("logits").shape()[1], false, "the row of logits"),
        K(c.in("logits").shape()[1]),
        blank(c.attr<int64_t>("blank")),
        zero_infinity(c.attr<bool>("zero_infinity")) {}

  template <class T>
  Paths<T> paths(const T* logits, int64_t b) const {
    return Paths<T>(logits + rows.begin(b) * K, rows.length(b), K, classes.data() + labels.begin(b), labels.length(b),
                    blank);
  }
};

PADDOCK_CPU_KERNEL(ctc_loss) {
  const Given given(c);
  dispatch_float(c.in("logits").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* logits = c.in("logits").data<T>();
    T* loss = c.out("loss").data<T>();
    parallel_for(given.rows.sequences(), 1, [&](int64_t first, int64_t last) {
      std::vector<T> alphas;
      for (int64_t b = first; b < last; ++b) {
        const double found = negative_log(given.paths(logits, b), given.labels.length(b), alphas, false);
        loss[b] = given.zero_infinity && std::isinf(found) ? T(0) : static_cast<T>(found);
      }
    });
  });
}

// dlogits of one sequence: dloss * (softmax - how likely each class is).
template <class T>
void sequence_gradient(const Paths<T>& p, const T* logits, int64_t K, const std::vector<T>& alphas, T dloss, T* to) {
  std::vector<T> scores(static_cast<size_t>(p.states())), likely(scores.size());
  std::vector<T> betas(static_cast<size_t>(2 * p.room()), kNever<T>);
  T *beta = betas.data(), *earlier = beta + p.room();
  p.end(beta);
  for (int64_t t = p.rows() - 1; t >= 0; --t) {
    const T *alpha = alphas.data() + t * p.room() + kBefore, *behind = beta + kBefore;
    for (int64_t s = 0; s < p.states(); ++s) likely[static_cast<size_t>(s)] = alpha[s] + behind[s];
    const T largest = row_max(likely.data(), p.states());
    const T scale = dloss / row_sum_exp(likely.data(), p.states(), largest);
    const T *row = logits + t * K, base = p.base(t);
    T* out = to + t * K;
#pragma GCC ivdep
    for (int64_t k = 0; k < K; ++k) out[k] = dloss * math::exp(row[k] - base);
    for (int64_t s = 0; s < p.states(); ++s)
      out[p.class_of(s)] -= scale * math::exp(likely[static_cast<size_t>(s)] - largest);
    if (!t) break;
    p.scores(t, scores.data());
    p.backward(beta, scores.data(), earlier);
    std::swap(beta, earlier);
  }
}

PADDOCK_CPU_KERNEL(ctc_loss_grad) {
  const Given given(c);
  dispatch_float(c.in("logits").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *logits = c.in("logits").data<T>(), *dloss = c.in("dloss").data<T>();
    T* dlogits = c.out("dlogits").data<T>();
    parallel_for(given.rows.sequences(), 1, [&](int64_t first, int64_t last) {
      std::vector<T> alphas;
      for (int64_t b = first; b < last; ++b) {
        const int64_t at = given.rows.begin(b) * given.K, size = given.rows.length(b) * given.K;
        const Paths<T> paths = given.paths(logits, b);
        if (std::isinf(negative_log(paths, given.labels.length(b), alphas, true)))
          std::fill_n(dlogits + at, size, given.zero_infinity ? T(0) : std::numeric_limits<T>::quiet_NaN());
        else if (size)
          sequence_gradient(paths, logits + at, given.K, alphas, dloss[b], dlogits + at);
      }
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
