// GRU and its gradient. A step of a band is one product, then the gates' element-wise arithmetic on rows in the cache.
#include "cpu/sequence/recurrent.h"
#include "cpu/vec/vec_math.h"

namespace paddock::cpu {
namespace {

// One row: from x [3 H], hidden = weight_h h + bias_h [3 H] and h to the gates [4 H] and the state [H].
template <class T>
void cell(int64_t H, const T* x, const T* hidden, const T* before, T* gates, T* y) {
#pragma GCC ivdep
  for (int64_t j = 0; j < H; ++j) {
    const T reset = math::sigmoid(x[j] + hidden[j]), keep = math::sigmoid(x[H + j] + hidden[H + j]);
    const T inner = hidden[2 * H + j], candidate = math::tanh(x[2 * H + j] + reset * inner);
    gates[j] = reset;
    gates[H + j] = keep;
    gates[2 * H + j] = candidate;
    gates[3 * H + j] = inner;
    y[j] = candidate + keep * (before[j] - candidate);
  }
}

// One row of the gradient: dx and dhidden [3 H] by what the cell got, and in dh, which holds the gradient by this row's
// state, the part of the row before's that does not go through weight_h.
template <class T>
void cell_grad(int64_t H, const T* gates, const T* before, const T* dy, const T* dgates, T* dh, T* dx, T* dhidden) {
#pragma GCC ivdep
  for (int64_t j = 0; j < H; ++j) {
    const T reset = gates[j], keep = gates[H + j], candidate = gates[2 * H + j], inner = gates[3 * H + j];
    const T d_state = dh[j] + dy[j];
    const T d_candidate = (d_state * (T(1) - keep) + dgates[2 * H + j]) * (T(1) - candidate * candidate);
    const T d_keep = (d_state * (before[j] - candidate) + dgates[H + j]) * keep * (T(1) - keep);
    const T d_reset = (d_candidate * inner + dgates[j]) * reset * (T(1) - reset);
    dx[j] = dhidden[j] = d_reset;
    dx[H + j] = dhidden[H + j] = d_keep;
    dx[2 * H + j] = d_candidate;
    dhidden[2 * H + j] = d_candidate * reset + dgates[3 * H + j];
    dh[j] = d_state * keep;
  }
}

template <class T>
struct Forward {
  const RecurrentShape& s;
  const PackedWeights<T>& weights;
  const T *x, *bias, *h0;
  T *y, *h, *gates;

  void run(int64_t part, const Band& band) const {
    const int64_t H = s.hidden;
    const Rows<T> hidden(band.size(), 3 * H);
    const std::vector<T> zeros(static_cast<size_t>(H));
    std::vector<const T*> before(static_cast<size_t>(band.size()));
    const T* own_bias = bias ? bias + part * 3 * H : nullptr;
    if (bias)
      for (int64_t i = 0; i < band.size(); ++i) std::copy(own_bias, own_bias + 3 * H, hidden[i]);
    for (int64_t t = 0; t < band.steps(); ++t) {
      const int64_t n = band.running(t);
      for (int64_t i = 0; i < n; ++i) before[static_cast<size_t>(i)] = state_before(y, s, part, band, i, t, h0, zeros);
      if (t > 0 || h0) weights.multiply(part, before.data(), hidden.pointers(), n, T(0), own_bias);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = band.row(i, t);
        cell(H, part_row(x, row, s.parts, part, 3 * H), hidden[i], before[static_cast<size_t>(i)],
             part_row(gates, row, s.parts, part, 4 * H), part_row(y, row, s.parts, part, H));
      }
    }
    for (int64_t i = 0; i < band.size(); ++i) {
      const T* last = state_before(y, s, part, band, i, band.length(i), h0, zeros);
      std::copy(last, last + H, state_row(h, s, part, band.number(i)));
    }
  }
};

template <class T>
struct Backward {
  const RecurrentShape& s;
  const PackedWeights<T>& weights;
  const T *y, *gates, *h0, *dy, *dh, *dgates;
  T *dx, *dhidden, *dh0;

  void run(int64_t part, const Band& band) const {
    const int64_t H = s.hidden, size = band.size();
    const Rows<T> state(size, H);
    const std::vector<T> zeros(static_cast<size_t>(4 * H));
    std::vector<const T*> now(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
      const T* last = or_zeros(state_row(dh, s, part, band.number(i)), zeros);
      std::copy(last, last + H, state[i]);
    }
    for (int64_t t = band.steps(); t-- > 0;) {
      const int64_t n = band.running(t);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = band.row(i, t);
        T* to = part_row(dhidden, row, s.parts, part, 3 * H);
        cell_grad(H, part_row(gates, row, s.parts, part, 4 * H), state_before(y, s, part, band, i, t, h0, zeros),
                  or_zeros(part_row(dy, row, s.parts, part, H), zeros),
                  or_zeros(part_row(dgates, row, s.parts, part, 4 * H), zeros), state[i],
                  part_row(dx, row, s.parts, part, 3 * H), to);
        now[static_cast<size_t>(i)] = to;
      }
      weights.multiply(part, now.data(), state.pointers(), n, T(1), nullptr);
    }
    for (int64_t i = 0; i < size; ++i) std::copy(state[i], state[i] + H, state_row(dh0, s, part, band.number(i)));
  }
};

// sums[j] = sum over rows of d[row, j]: in T within chunks of rows, in double over chunks.
template <class T>
void column_sums(const T* d, int64_t rows, int64_t width, T* sums) {
  const int64_t chunk = 256;
  parallel_for(width, 256, [=](int64_t begin, int64_t end) {
    std::vector<double> total(static_cast<size_t>(end - begin));
    std::vector<T> part(static_cast<size_t>(end - begin));
    for (int64_t first = 0; first < rows; first += chunk) {
      std::fill(part.begin(), part.end(), T(0));
      for (int64_t r = first; r < std::min(rows, first + chunk); ++r)
        for (int64_t j = begin; j < end; ++j) part[static_cast<size_t>(j - begin)] += d[r * width + j];
      for (size_t j = 0; j < part.size(); ++j) total[j] += part[j];
    }
    for (int64_t j = begin; j < end; ++j) sums[j] = static_cast<T>(total[static_cast<size_t>(j - begin)]);
  });
}

PADDOCK_CPU_KERNEL(gru) {
  const RecurrentShape s(c);
  const CheckedOffsets offsets(c, "offsets", s.rows);
  dispatch_float(c.in("x_gates").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const PackedWeights<T> weights(c, s, 3, true);
    const Forward<T> forward{s,
                             weights,
                             c.in("x_gates").data<T>(),
                             c.maybe<T>("bias_h"),
                             c.maybe<T>("h0"),
                             c.out("y").data<T>(),
                             c.out("h").data<T>(),
                             c.out("gates").data<T>()};
    for_each_band(s, offsets, [&](int64_t part, const Band& band) { forward.run(part, band); });
  });
}

PADDOCK_CPU_KERNEL(gru_grad) {
  const RecurrentShape s(c);
  const CheckedOffsets offsets(c, "offsets", s.rows);
  dispatch_float(c.in("y").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const PackedWeights<T> weights(c, s, 3, false);
    const int64_t width = 3 * s.hidden, stride = s.parts * width;
    Scratch memory = scratch(std::max<int64_t>(1, s.rows * stride) * static_cast<int64_t>(sizeof(T)));
    T* dhidden = memory.as<T>();  // [T, S * 3 H]
    const Backward<T> backward{s,
                               weights,
                               c.in("y").data<T>(),
                               c.in("gates").data<T>(),
                               c.maybe<T>("h0"),
                               c.maybe<T>("dy"),
                               c.maybe<T>("dh"),
                               c.maybe<T>("dgates"),
                               c.out("dx_gates").data<T>(),
                               dhidden,
                               c.out("dh0").data<T>()};
    for_each_band(s, offsets, [&](int64_t part, const Band& band) { backward.run(part, band); });
    for (int64_t part = 0; part < s.parts; ++part)
      weight_gradient(s, offsets, part, dhidden + part * width, stride, width, c.in("y").data<T>(), c.maybe<T>("h0"),
                      c.out("dweight_h").data<T>() + part * width * s.hidden);
    column_sums(dhidden, s.rows, stride, c.out("dbias_h").data<T>());
  });
}

}  // namespace
}  // namespace paddock::cpu
