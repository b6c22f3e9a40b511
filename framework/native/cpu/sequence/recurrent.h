// What LSTM and GRU share: the sequences of a task side by side, longest first, so that those still running at a step
// are a range, and one product of the whole range with packed weights a step.
#pragma once
#include <vector>

#include "cpu/gemm/gemm_driver.h"
#include "cpu/gemm/gemm_pack.h"
#include "cpu/gemm/gemm_tile.h"
#include "cpu/sequence/offsets.h"

namespace paddock::cpu {

// Letters: S directions (parts of rows), B sequences, T rows, H hidden units.
struct RecurrentShape {
  int64_t parts, hidden, sequences, rows;
  bool first_is_reverse;  // whether part 0 runs from the last row to the first

  explicit RecurrentShape(const KernelContext& c);
  bool reverse(int64_t part) const { return part == 1 || first_is_reverse; }
};

// Some sequences in one direction.
class Band {
 public:
  // Every `step`-th of the sequences in `order`, from number `start` on.
  Band(const CheckedOffsets& offsets, const std::vector<int64_t>& order, int64_t start, int64_t step, bool reverse);

  int64_t size() const { return static_cast<int64_t>(members_.size()); }
  int64_t steps() const { return members_.empty() ? 0 : members_[0].length; }
  int64_t length(int64_t i) const { return at(i).length; }
  int64_t number(int64_t i) const { return at(i).number; }
  int64_t row(int64_t i, int64_t t) const { return at(i).first + t * direction_; }
  // How many sequences have a step t: the first ones.
  int64_t running(int64_t t) const;

 private:
  struct Member {
    int64_t number, first, length;
  };
  const Member& at(int64_t i) const { return members_[static_cast<size_t>(i)]; }

  std::vector<Member> members_;
  int64_t direction_;
};

// Calls body(part, band) for all sequences in all directions, in parallel.
void for_each_band(const RecurrentShape& shape, const CheckedOffsets& offsets,
                   FunctionRef<void(int64_t, const Band&)> body);

// The panels of op(weight_h[part]) for every part, kept where the weights are constants.
template <class T>
class PackedWeights {
 public:
  // transposed: of weight_h[part]^T [H, gates * H], for the forward pass.
  PackedWeights(const KernelContext& c, const RecurrentShape& s, int64_t gates, bool transposed) {
    const int64_t width = gates * s.hidden;
    depth_ = transposed ? s.hidden : width;
    columns_ = transposed ? width : s.hidden;
    size_ = packed_size<T>(depth_, columns_);
    const T* weights = c.in("weight_h").data<T>();
    memory_ = c.prepared("weight_h")
                  .block(transposed ? "forward panels" : "backward panels",
                         s.parts * size_ * static_cast<int64_t>(sizeof(T)), [&](void* panels) {
                           for (int64_t p = 0; p < s.parts; ++p)
                             pack_all(transposed, weights + p * width * s.hidden, s.hidden, depth_, columns_,
                                      static_cast<T*>(panels) + p * size_);
                         });
  }

  // c[i] = (beta) c[i] + a[i] op(weight_h[part]) + bias for i < rows; `bias` may be null.
  void multiply(int64_t part, const T* const* a, T* const* c, int64_t rows, T beta, const T* bias) const {
    Tile<T> tile{};
    Epilogue<T> epilogue;
    epilogue.bias = bias;
    tile.taps = 1;
    tile.length = depth_;
    tile.fetch_stride = 64 / static_cast<int64_t>(sizeof(T));
    tile.alpha = T(1);
    tile.beta = beta;
    tile.epilogue = bias ? &epilogue : nullptr;
    const T* panels = static_cast<const T*>(memory_->data()) + part * size_;
    for (int64_t n0 = 0; n0 < columns_; n0 += kPanelWidth<T>) {
      const int64_t vecs = panel_vecs<T>(columns_, n0), count = ceil_div(rows, tile_rows(vecs));
      tile.column = n0;
      tile.columns = std::min(kPanelWidth<T>, columns_ - n0);
      tile.b = panels + panel_offset(depth_, n0);
      tile.b_stride = vecs * Vec<T>::kSize;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = i * rows / count, end = (i + 1) * rows / count;
        tile.a_rows = a + begin;
        tile.c = c + begin;
        tile_kernel_by_rows<T>(end - begin, vecs)(tile);
      }
    }
  }

 private:
  int64_t depth_, columns_, size_;
  std::shared_ptr<Storage> memory_;
};

// Rows of `width` values each, zeros at first, and pointers to them.
template <class T>
class Rows {
 public:
  Rows(int64_t rows, int64_t width) : values_(static_cast<size_t>(rows * width)), at_(static_cast<size_t>(rows)) {
    for (int64_t i = 0; i < rows; ++i) at_[static_cast<size_t>(i)] = values_.data() + i * width;
  }
  T* operator[](int64_t i) const { return at_[static_cast<size_t>(i)]; }
  T* const* pointers() const { return at_.data(); }

 private:
  std::vector<T> values_;
  std::vector<T*> at_;
};

// Row `row` of part `part` of a tensor [T, S * width]; null stays null.
template <class T>
T* part_row(T* data, int64_t row, int64_t parts, int64_t part, int64_t width) {
  return data ? data + (row * parts + part) * width : nullptr;
}

// One state [H] of a tensor [S, B, H]; null stays null.
template <class T>
T* state_row(T* data, const RecurrentShape& s, int64_t part, int64_t sequence) {
  return data ? data + (part * s.sequences + sequence) * s.hidden : nullptr;
}

// The pointer, or zeros where it is null.
template <class T>
const T* or_zeros(const T* p, const std::vector<T>& zeros) {
  return p ? p : zeros.data();
}

// What sequence i has in `values` [T, S * H] before step t; at first its row of `first` [S, B, H], or zeros.
template <class T>
const T* state_before(const T* values, const RecurrentShape& s, int64_t part, const Band& band, int64_t i, int64_t t,
                      const T* first, const std::vector<T>& zeros) {
  if (t > 0) return part_row(values, band.row(i, t - 1), s.parts, part, s.hidden);
  return or_zeros(state_row(first, s, part, band.number(i)), zeros);
}

// dweight_h[part] = d^T h, where d [T, width] are the gradients of what weight_h h was added to, `stride` elements from
// row to row, and h [T, H] the states before each row.
template <class T>
void weight_gradient(const RecurrentShape& s, const CheckedOffsets& offsets, int64_t part, const T* d, int64_t stride,
                     int64_t width, const T* y, const T* h0, T* dweight);

}  // namespace paddock::cpu
