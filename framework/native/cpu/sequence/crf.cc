// Conditional random fields: the forward algorithm, forward-backward and Viterbi, a sequence at a time. Scores are kept
// relative to the largest of their row, and the shifts are summed in double: long sequences lose no precision.
#include <cmath>
#include <limits>

#include "cpu/elementwise/rows.h"
#include "cpu/movement/indices.h"
#include "cpu/sequence/offsets.h"

namespace paddock::cpu {
namespace {

template <class T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

// The inputs of all three operators; K tags.
template <class T>
struct Chain {
  int64_t K;
  const T *emissions, *transitions, *start, *stop;

  explicit Chain(const KernelContext& c)
      : K(c.in("emissions").shape()[1]),
        emissions(c.in("emissions").data<T>()),
        transitions(c.in("transitions").data<T>()),
        start(c.in("start").data<T>()),
        stop(c.in("stop").data<T>()) {}

  double path_score(const int64_t* tags, int64_t begin, int64_t end) const {
    double score = static_cast<double>(start[tags[begin]]) + stop[tags[end - 1]];
    for (int64_t t = begin; t < end; ++t) score += emissions[t * K + tags[t]];
    for (int64_t t = begin + 1; t < end; ++t) score += transitions[tags[t - 1] * K + tags[t]];
    return score;
  }
};

// x -= max(x), which is returned; where that is infinite, x stays.
template <class T>
T shift_by_largest(T* x, int64_t n) {
  const T largest = row_max(x, n);
  if (!(std::fabs(largest) <= std::numeric_limits<T>::max())) return T(0);
  for (int64_t i = 0; i < n; ++i) x[i] -= largest;
  return largest;
}

template <class T>
T log_sum_exp(const T* x, int64_t n) {
  const T largest = row_max(x, n);
  return largest == kNever<T> ? largest : largest + math::log(row_sum_exp(x, n, largest));
}

// next[j] = row[j] + log(sum_i exp(before[i] + transitions[i, j])). `largest` and `sum` have room for K.
template <class T>
void advance(const Chain<T>& c, const T* before, const T* row, T* next, T* largest, T* sum) {
  const int64_t K = c.K;
  std::fill(largest, largest + K, std::numeric_limits<T>::lowest());  // finite, so that no difference is NaN
  std::fill(sum, sum + K, T(0));
  for (int64_t i = 0; i < K; ++i) {
    const T from = before[i], *to = c.transitions + i * K;
#pragma GCC ivdep
    for (int64_t j = 0; j < K; ++j) {
      const T score = from + to[j];
      largest[j] = score > largest[j] ? score : largest[j];
    }
  }
  for (int64_t i = 0; i < K; ++i) {
    const T from = before[i], *to = c.transitions + i * K;
#pragma GCC ivdep
    for (int64_t j = 0; j < K; ++j) sum[j] += math::exp(from + to[j] - largest[j]);
  }
  for (int64_t j = 0; j < K; ++j) next[j] = sum[j] > T(0) ? row[j] + largest[j] + math::log(sum[j]) : kNever<T>;
}

// The forward algorithm over rows [begin, end): `alphas` [length, K] and `shifts` [length] such that alphas[t, j] +
// shifts[0] + ... + shifts[t] is the log of the sum over all paths to tag j of row t. Gives the log of the sum over all
// paths. With `keep` false, only two rows of alphas are used in turn.
template <class T>
double forward(const Chain<T>& c, int64_t begin, int64_t end, T* alphas, T* shifts, bool keep) {
  const int64_t K = c.K;
  std::vector<T> room(static_cast<size_t>(2 * K));
  double total = 0;
  T* now = alphas;
  for (int64_t t = begin; t < end; ++t) {
    const T* row = c.emissions + t * K;
    if (t == begin) {
      for (int64_t j = 0; j < K; ++j) now[j] = c.start[j] + row[j];
    } else {
      const T* before = now;
      now = keep || now == alphas ? now + K : alphas;
      advance(c, before, row, now, room.data(), room.data() + K);
    }
    const T shift = shift_by_largest(now, K);
    if (shifts) shifts[t - begin] = shift;
    total += shift;
  }
  for (int64_t j = 0; j < K; ++j) room[static_cast<size_t>(j)] = now[j] + c.stop[j];
  return total + log_sum_exp(room.data(), K);
}

PADDOCK_CPU_KERNEL(crf_loss) {
  const CheckedOffsets offsets(c, "offsets", c.in("emissions").shape()[0]);
  const CheckedIndices tags(c, "tags", c.in("emissions").shape()[1], false, "the row of emissions");
  dispatch_float(c.in("emissions").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Chain<T> chain(c);
    T* loss = c.out("loss").data<T>();
    parallel_for(offsets.sequences(), 1, [&](int64_t first, int64_t last) {
      std::vector<T> alphas(static_cast<size_t>(2 * chain.K));
      for (int64_t b = first; b < last; ++b) {
        const int64_t begin = offsets.begin(b), end = offsets.end(b);
        loss[b] = T(0);
        if (begin == end) continue;
        const double all = forward<T>(chain, begin, end, alphas.data(), nullptr, false);
        loss[b] = static_cast<T>(all - chain.path_score(tags.data(), begin, end));
      }
    });
  });
}

// Where the gradients of a chunk of sequences are summed: dtransitions [K, K], dstart [K], dstop [K], one after the
// other.
template <class T>
struct Sums {
  T *transitions, *start, *stop;
  Sums(T* memory, int64_t K) : transitions(memory), start(memory + K * K), stop(memory + K * K + K) {}
  static int64_t size(int64_t K) { return K * K + 2 * K; }
};

// Forward-backward over one sequence.
template <class T>
class SequenceGradient {
 public:
  SequenceGradient(const Chain<T>& chain, const int64_t* tags, T* demissions, Sums<T> sums)
      : c_(chain),
        K_(chain.K),
        tags_(tags),
        demissions_(demissions),
        sums_(sums),
        beta_(static_cast<size_t>(K_)),
        row_(static_cast<size_t>(K_)),
        pair_(static_cast<size_t>(K_)) {}

  void run(int64_t begin, int64_t end, T dloss) {
    std::vector<T> alphas(static_cast<size_t>((end - begin) * K_)), shifts(static_cast<size_t>(end - begin));
    forward(c_, begin, end, alphas.data(), shifts.data(), true);
    std::copy(c_.stop, c_.stop + K_, beta_.begin());
    for (int64_t t = end - 1; t >= begin; --t) {
      const T* alpha = alphas.data() + (t - begin) * K_;
      const T total = tag_probabilities(alpha, t, dloss);
      if (t == end - 1) add(sums_.stop, demissions_ + t * K_);
      if (t == begin)
        add(sums_.start, demissions_ + t * K_);
      else
        pairs(alpha - K_, t, shifts[static_cast<size_t>(t - begin)] + total, dloss);
    }
  }

 private:
  // demissions of row t: dloss * (p(tag) - given); returns the log of the sum that p is normalised by.
  T tag_probabilities(const T* alpha, int64_t t, T dloss) {
    for (int64_t j = 0; j < K_; ++j) row_[static_cast<size_t>(j)] = alpha[j] + beta_[static_cast<size_t>(j)];
    const T total = log_sum_exp(row_.data(), K_);
    T* d = demissions_ + t * K_;
    for (int64_t j = 0; j < K_; ++j) d[j] = dloss * math::exp(row_[static_cast<size_t>(j)] - total);
    d[tags_[t]] -= dloss;
    return total;
  }

  void add(T* to, const T* from) const {
    for (int64_t j = 0; j < K_; ++j) to[j] += from[j];
  }

  // The pairs (tag of row t - 1, tag of row t); beta moves on to row t - 1.
  void pairs(const T* before, int64_t t, T total, T dloss) {
    const T* emission = c_.emissions + t * K_;
    for (int64_t j = 0; j < K_; ++j) row_[static_cast<size_t>(j)] = emission[j] + beta_[static_cast<size_t>(j)] - total;
    for (int64_t i = 0; i < K_; ++i) {
      const T *to = c_.transitions + i * K_, *ahead = row_.data();
      T *d = sums_.transitions + i * K_, *p = pair_.data();
      const T from = before[i];
#pragma GCC ivdep
      for (int64_t j = 0; j < K_; ++j) {
        p[j] = math::exp(from + to[j] + ahead[j]);
        d[j] += dloss * p[j];
      }
      const T share = row_sum<T>(K_, [p](auto at) { return at(p); });
      // A tag that no likely path has gets no probability further on either.
      beta_[static_cast<size_t>(i)] = share > T(0) ? math::log(share) - from : kNever<T>;
    }
    sums_.transitions[tags_[t - 1] * K_ + tags_[t]] -= dloss;
    shift_by_largest(beta_.data(), K_);
  }

  const Chain<T>& c_;
  const int64_t K_;
  const int64_t* tags_;
  T* demissions_;
  Sums<T> sums_;
  std::vector<T> beta_, row_, pair_;
};

constexpr int64_t kChunks = 16;  // of sequences, each with its own sums

template <class T>
void gradient(const KernelContext& c, const CheckedOffsets& offsets, const int64_t* tags) {
  const Chain<T> chain(c);
  const int64_t K = chain.K, size = Sums<T>::size(K), B = offsets.sequences();
  const int64_t chunk = std::max<int64_t>(1, (B + kChunks - 1) / kChunks), chunks = (B + chunk - 1) / chunk;
  std::vector<T> sums(static_cast<size_t>(chunks * size));
  const T* dloss = c.in("dloss").data<T>();
  parallel_for(B, chunk, [&](int64_t first, int64_t last) {
    SequenceGradient<T> one(chain, tags, c.out("demissions").data<T>(), {sums.data() + first / chunk * size, K});
    for (int64_t b = first; b < last; ++b)
      if (offsets.length(b) > 0) one.run(offsets.begin(b), offsets.end(b), dloss[b]);
  });
  const auto total = [&](int64_t at) {
    double sum = 0;
    for (int64_t i = 0; i < chunks; ++i) sum += sums[static_cast<size_t>(i * size + at)];
    return static_cast<T>(sum);
  };
  for (int64_t i = 0; i < K * K; ++i) c.out("dtransitions").data<T>()[i] = total(i);
  for (int64_t i = 0; i < K; ++i) c.out("dstart").data<T>()[i] = total(K * K + i);
  for (int64_t i = 0; i < K; ++i) c.out("dstop").data<T>()[i] = total(K * K + K + i);
}

PADDOCK_CPU_KERNEL(crf_loss_grad) {
  const CheckedOffsets offsets(c, "offsets", c.in("emissions").shape()[0]);
  const CheckedIndices tags(c, "tags", c.in("emissions").shape()[1], false, "the row of emissions");
  dispatch_float(c.in("emissions").dtype(),
                 [&](auto tag) { gradient<typename decltype(tag)::type>(c, offsets, tags.data()); });
}

// The best path of rows [begin, end) into `tags`; returns its score.
template <class T>
T viterbi(const Chain<T>& c, int64_t begin, int64_t end, int64_t* tags) {
  const int64_t K = c.K;
  std::vector<int32_t> from(static_cast<size_t>((end - begin) * K));
  std::vector<T> now(static_cast<size_t>(K)), next(static_cast<size_t>(K));
  for (int64_t j = 0; j < K; ++j) now[static_cast<size_t>(j)] = c.start[j] + c.emissions[begin * K + j];
  for (int64_t t = begin + 1; t < end; ++t) {
    int32_t* pointers = from.data() + (t - begin) * K;
    T* best = next.data();
    std::fill(best, best + K, kNever<T>);
    for (int64_t i = 0; i < K; ++i) {
      const T before = now[static_cast<size_t>(i)], *to = c.transitions + i * K;
#pragma GCC ivdep
      for (int64_t j = 0; j < K; ++j) {
        const T score = before + to[j];
        pointers[j] = score > best[j] ? static_cast<int32_t>(i) : pointers[j];
        best[j] = score > best[j] ? score : best[j];
      }
    }
    for (int64_t j = 0; j < K; ++j) best[j] += c.emissions[t * K + j];
    std::swap(now, next);
  }
  for (int64_t j = 0; j < K; ++j) now[static_cast<size_t>(j)] += c.stop[j];
  const auto last = std::max_element(now.begin(), now.end());
  int64_t tag = last - now.begin();
  for (int64_t t = end - 1; t >= begin; --t) {
    tags[t] = tag;
    tag = from[static_cast<size_t>((t - begin) * K + tag)];
  }
  return *last;
}

PADDOCK_CPU_KERNEL(crf_decode) {
  const CheckedOffsets offsets(c, "offsets", c.in("emissions").shape()[0]);
  dispatch_float(c.in("emissions").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Chain<T> chain(c);
    auto* tags = c.out("tags").data<int64_t>();
    T* score = c.out("score").data<T>();
    parallel_for(offsets.sequences(), 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b)
        score[b] = offsets.length(b) ? viterbi(chain, offsets.begin(b), offsets.end(b), tags) : T(0);
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
