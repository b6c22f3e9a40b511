// LSTM and its gradient. A step of a band is one product, then the gates' element-wise arithmetic on rows in the cache.
#include "cpu/sequence/recurrent.h"
#include "cpu/vec/vec_math.h"

namespace paddock::cpu {
namespace {

// One row: from x [4 H] and hidden = weight_h h [4 H] to the gates [4 H] (which may be x), the cell and the state [H].
template <class T>
void cell(int64_t H, const T* x, const T* hidden, const T* cell_before, T* gates, T* cell_now, T* y) {
#pragma GCC ivdep
  for (int64_t j = 0; j < H; ++j) {
    const T in = math::sigmoid(x[j] + hidden[j]);
    const T forget = math::sigmoid(x[H + j] + hidden[H + j]);
    const T candidate = math::tanh(x[2 * H + j] + hidden[2 * H + j]);
    const T out = math::sigmoid(x[3 * H + j] + hidden[3 * H + j]);
    const T now = forget * cell_before[j] + in * candidate;
    gates[j] = in;
    gates[H + j] = forget;
    gates[2 * H + j] = candidate;
    gates[3 * H + j] = out;
    cell_now[j] = now;
    y[j] = out * math::tanh(now);
  }
}

// One row of the gradient. dh and dc hold the gradients by this row's state; dc becomes that of the row before.
// dx [4 H] may be `gates`.
template <class T>
void cell_grad(int64_t H, const T* gates, const T* cell_now, const T* cell_before, const T* dy, const T* dgates,
               const T* dcells, const T* dh, T* dc, T* dx) {
#pragma GCC ivdep
  for (int64_t j = 0; j < H; ++j) {
    const T in = gates[j], forget = gates[H + j], candidate = gates[2 * H + j], out = gates[3 * H + j];
    const T squashed = math::tanh(cell_now[j]), d_state = dh[j] + dy[j];
    const T d_cell = dc[j] + dcells[j] + d_state * out * (T(1) - squashed * squashed);
    dx[j] = (d_cell * candidate + dgates[j]) * in * (T(1) - in);
    dx[H + j] = (d_cell * cell_before[j] + dgates[H + j]) * forget * (T(1) - forget);
    dx[2 * H + j] = (d_cell * in + dgates[2 * H + j]) * (T(1) - candidate * candidate);
    dx[3 * H + j] = (d_state * squashed + dgates[3 * H + j]) * out * (T(1) - out);
    dc[j] = d_cell * forget;
  }
}

template <class T>
struct Forward {
  const RecurrentShape& s;
  const PackedWeights<T>& weights;
  const T *x, *h0, *c0;
  T *y, *h, *c, *gates, *cells;

  void run(int64_t part, const Band& band) const {
    const int64_t H = s.hidden;
    const Rows<T> hidden(band.size(), 4 * H);
    const std::vector<T> zeros(static_cast<size_t>(H));
    std::vector<const T*> before(static_cast<size_t>(band.size()));
    for (int64_t t = 0; t < band.steps(); ++t) {
      const int64_t n = band.running(t);
      for (int64_t i = 0; i < n; ++i) before[static_cast<size_t>(i)] = state_before(y, s, part, band, i, t, h0, zeros);
      if (t > 0 || h0) weights.multiply(part, before.data(), hidden.pointers(), n, T(0), nullptr);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = band.row(i, t);
        cell(H, part_row(x, row, s.parts, part, 4 * H), hidden[i], state_before(cells, s, part, band, i, t, c0, zeros),
             part_row(gates, row, s.parts, part, 4 * H), part_row(cells, row, s.parts, part, H),
             part_row(y, row, s.parts, part, H));
      }
    }
    for (int64_t i = 0; i < band.size(); ++i) {
      const int64_t b = band.number(i);
      const T* last_h = state_before(y, s, part, band, i, band.length(i), h0, zeros);
      const T* last_c = state_before(cells, s, part, band, i, band.length(i), c0, zeros);
      std::copy(last_h, last_h + H, state_row(h, s, part, b));
      std::copy(last_c, last_c + H, state_row(c, s, part, b));
    }
  }
};

template <class T>
struct Backward {
  const RecurrentShape& s;
  const PackedWeights<T>& weights;
  const T *gates, *cells, *c0, *dy, *dh, *dc, *dgates, *dcells;
  T *dx, *dh0, *dc0;

  void run(int64_t part, const Band& band) const {
    const int64_t H = s.hidden, size = band.size();
    const Rows<T> state(size, H), memory(size, H);
    const std::vector<T> zeros(static_cast<size_t>(4 * H));
    std::vector<const T*> now(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
      const T* last_h = or_zeros(state_row(dh, s, part, band.number(i)), zeros);
      const T* last_c = or_zeros(state_row(dc, s, part, band.number(i)), zeros);
      std::copy(last_h, last_h + H, state[i]);
      std::copy(last_c, last_c + H, memory[i]);
    }
    for (int64_t t = band.steps(); t-- > 0;) {
      const int64_t n = band.running(t);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = band.row(i, t);
        T* to = part_row(dx, row, s.parts, part, 4 * H);
        cell_grad(H, part_row(gates, row, s.parts, part, 4 * H), part_row(cells, row, s.parts, part, H),
                  state_before(cells, s, part, band, i, t, c0, zeros),
                  or_zeros(part_row(dy, row, s.parts, part, H), zeros),
                  or_zeros(part_row(dgates, row, s.parts, part, 4 * H), zeros),
                  or_zeros(part_row(dcells, row, s.parts, part, H), zeros), state[i], memory[i], to);
        now[static_cast<size_t>(i)] = to;
      }
      weights.multiply(part, now.data(), state.pointers(), n, T(0), nullptr);
    }
    for (int64_t i = 0; i < size; ++i) {
      std::copy(state[i], state[i] + H, state_row(dh0, s, part, band.number(i)));
      std::copy(memory[i], memory[i] + H, state_row(dc0, s, part, band.number(i)));
    }
  }
};

PADDOCK_CPU_KERNEL(lstm) {
  const RecurrentShape s(c);
  const CheckedOffsets offsets(c, "offsets", s.rows);
  dispatch_float(c.in("x_gates").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const PackedWeights<T> weights(c, s, 4, true);
    const Forward<T> forward{s,
                             weights,
                             c.in("x_gates").data<T>(),
                             c.maybe<T>("h0"),
                             c.maybe<T>("c0"),
                             c.out("y").data<T>(),
                             c.out("h").data<T>(),
                             c.out("c").data<T>(),
                             c.out("gates").data<T>(),
                             c.out("cells").data<T>()};
    for_each_band(s, offsets, [&](int64_t part, const Band& band) { forward.run(part, band); });
  });
}

PADDOCK_CPU_KERNEL(lstm_grad) {
  const RecurrentShape s(c);
  const CheckedOffsets offsets(c, "offsets", s.rows);
  dispatch_float(c.in("y").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const PackedWeights<T> weights(c, s, 4, false);
    T* dx = c.out("dx_gates").data<T>();
    const Backward<T> backward{s,
                               weights,
                               c.in("gates").data<T>(),
                               c.in("cells").data<T>(),
                               c.maybe<T>("c0"),
                               c.maybe<T>("dy"),
                               c.maybe<T>("dh"),
                               c.maybe<T>("dc"),
                               c.maybe<T>("dgates"),
                               c.maybe<T>("dcells"),
                               dx,
                               c.out("dh0").data<T>(),
                               c.out("dc0").data<T>()};
    for_each_band(s, offsets, [&](int64_t part, const Band& band) { backward.run(part, band); });
    const int64_t width = 4 * s.hidden;
    for (int64_t part = 0; part < s.parts; ++part)
      weight_gradient(s, offsets, part, dx + part * width, s.parts * width, width, c.in("y").data<T>(),
                      c.maybe<T>("h0"), c.out("dweight_h").data<T>() + part * width * s.hidden);
  });
}

}  // namespace
}  // namespace paddock::cpu
