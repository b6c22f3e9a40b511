// Copies of rows, and copies and sums through one table of indices an axis; see move.h.
#include "cpu/movement/move.h"

#include <optional>

namespace paddock::cpu {

void copy_rows(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t rows, int64_t bytes) {
  if (rows == 0 || bytes == 0) return;
  if (rows == 1 || (to_stride == bytes && from_stride == bytes)) {
    parallel_for(rows * bytes, kCopyBytes, [&](int64_t b, int64_t e) { std::memcpy(to + b, from + b, e - b); });
    return;
  }
  parallel_for(rows, copy_grain(bytes), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) copy_block(to + r * to_stride, from + r * from_stride, bytes);
  });
}

namespace {

// One axis of a copy, or several identical ones joined: no table means that both sides run in step.
struct Axis {
  int64_t to, from;  // extents
  const AxisTable* table;
};

bool is_identity(const AxisTable& table, int64_t extent) {
  if (static_cast<int64_t>(table.size()) != extent) return false;
  for (int64_t i = 0; i < extent; ++i)
    if (table[i] != i) return false;
  return true;
}

std::vector<Axis> joined_axes(const Shape& x, const std::vector<AxisTable>& tables) {
  std::vector<Axis> axes;
  for (int a = 0; a < x.rank(); ++a) {
    const bool plain = is_identity(tables[a], x[a]);
    if (plain && !axes.empty() && !axes.back().table) {
      axes.back().to *= x[a];
      axes.back().from *= x[a];
    } else {
      axes.push_back({static_cast<int64_t>(tables[a].size()), x[a], plain ? nullptr : &tables[a]});
    }
  }
  return axes;
}

// A stretch of the row axis that is copied at once; from -1 is fill.
struct Piece {
  int64_t to, from, count;
};

std::vector<Piece> pieces_of(const AxisTable& table, int64_t max_count) {
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < static_cast<int64_t>(table.size()); ++i) {
    if (!pieces.empty()) {
      Piece& p = pieces.back();
      const bool follows = table[i] < 0 ? p.from < 0 : p.from >= 0 && table[i] == p.from + p.count;
      if (follows && p.count < max_count) {
        ++p.count;
        continue;
      }
    }
    pieces.push_back({i, table[i], 1});
  }
  return pieces;
}

void fill_elements(char* to, int64_t bytes, const void* element, int64_t size) {
  dispatch_size(size, [&](auto tag) {
    using U = typename decltype(tag)::type;
    U value;
    std::memcpy(&value, element, sizeof(U));
    U* out = reinterpret_cast<U*>(to);
    std::fill(out, out + bytes / size, value);
  });
}

// Where row r of y begins in x, in rows of x's own; -1 when the whole row is fill.
int64_t source_row(const std::vector<Axis>& outer, int64_t r) {
  int64_t row = 0, stride = 1;
  for (size_t a = outer.size(); a-- > 0;) {
    const int64_t i = a ? r % outer[a].to : r, from = outer[a].table ? (*outer[a].table)[i] : i;
    if (a) r /= outer[a].to;  // a division takes longer than a short row
    if (from < 0) return -1;
    row += from * stride;
    stride *= outer[a].from;
  }
  return row;
}

// Elements of x picked one by one along the last axis: short stretches would cost a call each.
template <class U>
void pick_elements(const U* x, U* y, const std::vector<Axis>& outer, int64_t rows, const AxisTable& table,
                   int64_t from_extent, U fill) {
  const auto n = static_cast<int64_t>(table.size());
  const int64_t* t = table.data();
  parallel_for(rows, row_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t row = source_row(outer, r);
      const U* in = x + (row < 0 ? 0 : row * from_extent);
      U* out = y + r * n;
      for (int64_t i = 0; i < n; ++i) out[i] = row < 0 || t[i] < 0 ? fill : in[t[i]];
    }
  });
}

}  // namespace

void copy_by_tables(const Tensor& x, const Tensor& y, const std::vector<AxisTable>& tables, const void* fill) {
  if (y.numel() == 0) return;
  const int64_t size = dtype_size(x.dtype());
  const char* from = x.data<char>();
  char* to = y.data<char>();
  std::vector<Axis> axes = joined_axes(x.shape(), tables);
  int64_t block = size;  // bytes of the trailing axes that move as one
  if (!axes.empty() && !axes.back().table) {
    block *= axes.back().to;
    axes.pop_back();
  }
  if (axes.empty()) return copy_rows(to, block, from, block, 1, block);
  const Axis last = axes.back();
  axes.pop_back();
  int64_t rows = 1;
  for (const Axis& a : axes) rows *= a.to;
  const std::vector<Piece> pieces = pieces_of(*last.table, std::max<int64_t>(1, kCopyBytes / block));
  const auto count = static_cast<int64_t>(pieces.size());
  if (block == size && last.to < 4 * count) {
    dispatch_size(size, [&](auto tag) {
      using U = typename decltype(tag)::type;
      U value;
      std::memcpy(&value, fill, sizeof(U));
      pick_elements<U>(x.data<U>(), y.data<U>(), axes, rows, *last.table, last.from, value);
    });
    return;
  }
  parallel_for(rows * count, copy_grain(last.to * block / count), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const Piece& p = pieces[k % count];
      const int64_t r = k / count, row = source_row(axes, r);
      char* out = to + (r * last.to + p.to) * block;
      if (row < 0 || p.from < 0)
        fill_elements(out, p.count * block, fill, size);
      else
        std::memcpy(out, from + (row * last.from + p.from) * block, p.count * block);
    }
  });
}

namespace {

// x[o, table[j], i] += y[o, j, i] over j in order, for one axis; x is written whole.
template <class T>
void sum_axis(const T* y, T* x, int64_t outer, const AxisTable& table, int64_t extent, int64_t inner) {
  const auto n = static_cast<int64_t>(table.size());
  const int64_t columns = std::min<int64_t>(inner, 1024), blocks = inner ? (inner + columns - 1) / columns : 0;
  parallel_for(outer * blocks, row_grain(n * columns), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t o = k / blocks, first = k % blocks * columns, last = std::min(inner, first + columns);
      for (int64_t i = 0; i < extent; ++i)
        std::fill(x + (o * extent + i) * inner + first, x + (o * extent + i) * inner + last, T(0));
      for (int64_t j = 0; j < n; ++j) {
        if (table[j] < 0) continue;
        T* out = x + (o * extent + table[j]) * inner;
        const T* in = y + (o * n + j) * inner;
        for (int64_t i = first; i < last; ++i) out[i] += in[i];
      }
    }
  });
}

}  // namespace

void sum_by_tables(const Tensor& y, const Tensor& x, const std::vector<AxisTable>& tables) {
  dispatch_float(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Shape shape = y.shape();
    std::vector<int> todo;
    for (int a = 0; a < shape.rank(); ++a)
      if (!is_identity(tables[a], x.shape()[a])) todo.push_back(a);
    if (todo.empty()) return copy_rows(x.data<char>(), x.bytes(), y.data<char>(), x.bytes(), 1, x.bytes());
    const T* in = y.data<T>();
    std::optional<Scratch> buffers[2];
    for (size_t k = 0; k < todo.size(); ++k) {
      const int a = todo[k];
      const int64_t outer = shape.count(0, a), inner = shape.count(a + 1, shape.rank());
      shape[a] = x.shape()[a];
      T* out = x.data<T>();
      if (k + 1 < todo.size()) {
        buffers[k % 2].emplace(shape.numel() * sizeof(T));
        out = buffers[k % 2]->template as<T>();
      }
      sum_axis<T>(in, out, outer, tables[a], x.shape()[a], inner);
      in = out;
    }
  });
}

}  // namespace paddock::cpu
