// Cache blocking and the split of work into tasks, for both loops. All sizes follow from the shapes alone.
#include "cpu/gemm/gemm_driver.h"

#include <vector>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/gemm/gemm_pack.h"
#include "cpu/gemm/gemm_tile.h"
#include "cpu/vec/stream.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kTasksWanted = 32;          // enough to even out the threads of a large machine
constexpr int64_t kTaskOperations = 1 << 21;  // multiply-adds that make a task worth its start
constexpr int64_t kBandRows = 192;            // of C in a task, at most,
constexpr int64_t kFewestRows = 48;           // and where there are many: tiles enough to ask for all of the next panel
constexpr int64_t kPackedAtOnce = 1 << 14;    // elements of B that a thread packs at a time
constexpr int64_t kStretchBytes = 256 << 10;  // of C that is revisited for each block of the sum

// Depth of a block of the sum: a panel of B of this depth streams from the second-level cache while the rows of A for a
// tile stay in the first.
template <class T>
constexpr int64_t kDepth = std::min<int64_t>(512, (128 << 10) / (kPanelWidth<T> * static_cast<int64_t>(sizeof(T))));

// The same where both operands are packed block by block.
constexpr int64_t kBlockDepth = 128;

// One block of the sum: taps [tap, tap + taps), values [offset, offset + length) of each.
struct DepthBlock {
  int64_t tap, taps, offset, length;
};

std::vector<DepthBlock> depth_blocks(int64_t taps, int64_t length, int64_t depth) {
  std::vector<DepthBlock> blocks;
  if (taps > 0 && length * 2 > depth) {
    const int64_t parts = ceil_div(length, depth);
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t i = 0; i < parts; ++i) {
        const int64_t begin = i * length / parts, end = (i + 1) * length / parts;
        blocks.push_back({t, 1, begin, end - begin});
      }
  } else {
    const int64_t most = std::max<int64_t>(1, depth / std::max<int64_t>(length, 1)),
                  parts = std::max<int64_t>(1, ceil_div(taps, most));
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = i * taps / parts, end = (i + 1) * taps / parts;
      blocks.push_back({begin, end - begin, 0, length});
    }
  }
  return blocks;
}

// C [M, panels] cut into bands of rows and groups of panels, a task each. Tasks of one group follow each other where
// B is larger than A, so that B comes from memory once; else those of one band.
struct TaskGrid {
  int64_t bands, groups;
  bool by_groups;

  int64_t tasks() const { return bands * groups; }
  int64_t band(int64_t task) const { return by_groups ? task % bands : task / groups; }
  int64_t group(int64_t task) const { return by_groups ? task / bands : task % groups; }
};

// Tall bands come first, as a panel of B is read once for each; narrow groups cost little.
TaskGrid task_grid(int64_t M, int64_t panels, int64_t work, bool by_groups) {
  // Numbers that two or four threads share evenly.
  const auto bands = [&](int64_t rows) {
    const int64_t count = ceil_div(M, rows);
    return count > 2 ? ceil_div(count, 4) * 4 : count;
  };
  const int64_t most = std::clamp<int64_t>(work / kTaskOperations, 1, kTasksWanted);
  int64_t rows = kBandRows;
  const auto groups = [&] {
    const int64_t wanted = std::min(panels, ceil_div(most, bands(rows)));
    return ceil_div(panels, panels / wanted);  // of equal size: rather a few more of them
  };
  while (rows > kFewestRows && bands(rows) * groups() < most) rows /= 2;
  return {bands(rows), groups(), by_groups};
}

// Bands of at most `rows` rows, all panels each.
TaskGrid band_grid(int64_t M, int64_t rows, int64_t work) {
  const int64_t most = std::clamp<int64_t>(work / kTaskOperations, 1, kTasksWanted);
  while (rows > 24 && ceil_div(M, rows) < most) rows /= 2;
  return {ceil_div(M, rows), 1, false};
}

// `epilogue` may be null.
template <class T>
void set_outcome(Tile<T>& tile, bool first, bool last, T alpha, T beta, const Epilogue<T>* epilogue) {
  tile.add_residual = first && epilogue && epilogue->residual && !epilogue->residual_last;
  tile.alpha = alpha;
  tile.beta = first ? beta : T(1);
  tile.epilogue = last && epilogue && !epilogue->empty() ? epilogue : nullptr;
}

// Asks for the rows of C, and of what joins them, that the next tile writes.
// Inlined by force: GCC takes a function of prefetches alone for one without effect and drops its calls.
template <class T>
PADDOCK_INLINE void fetch_next(const Tile<T>& tile, T* const* c, int64_t rows) {
  const int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < rows; ++i) {
    if (!tile.stream)
      for (int64_t j = 0; j < tile.columns; j += line) __builtin_prefetch(c[i] + tile.column + j, 1);
    if (tile.epilogue && tile.epilogue->operand)
      for (int64_t j = 0; j < tile.columns; j += line)
        __builtin_prefetch(tile.epilogue->operand + (c[i] - tile.epilogue->origin) + tile.column + j);
  }
}

// One band of rows against one group of panels.
template <class T>
class RowsTask {
 public:
  RowsTask(const RowsProduct<T>& p, const std::vector<DepthBlock>& blocks, int64_t begin, int64_t rows)
      : p_(p),
        blocks_(blocks),
        rows_(rows),
        pointers_((p.taps + 1) * rows * static_cast<int64_t>(sizeof(T*))),
        values_(std::max<int64_t>(1, p.scratch_per_row * rows) * static_cast<int64_t>(sizeof(T))) {
    p.rows_at(begin, rows, a(), c(), values_.template as<T>());
    tile_.residual_shift = p.residual_shift;
    tile_.stream = p.stream && blocks.size() == 1 && p.beta == T(0);
  }

  // Panels in stretches whose part of C stays in the second-level cache from one block of the sum to the next. `after`
  // is the panel that this thread will probably begin with next; one that does not exist asks for nothing.
  void run(int64_t begin, int64_t end, int64_t after) {
    after_ = after;
    end_ = end;
    const int64_t most =
        blocks_.size() == 1
            ? end - begin
            : std::max<int64_t>(1, kStretchBytes / (rows_ * kPanelWidth<T> * static_cast<int64_t>(sizeof(T))));
    const int64_t stretches = ceil_div(end - begin, most);
    for (int64_t i = 0; i < stretches; ++i)
      stretch(begin + i * (end - begin) / stretches, begin + (i + 1) * (end - begin) / stretches);
  }

 private:
  void stretch(int64_t begin, int64_t end) {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const DepthBlock& block = blocks_[i];
      set_outcome(tile_, i == 0, i + 1 == blocks_.size(), p_.alpha, p_.beta, &p_.epilogue);
      tile_.a_stride = rows_;
      tile_.a_offset = block.offset;
      tile_.taps = block.taps;
      tile_.length = block.length;
      for (int64_t panel = begin; panel < end; ++panel) {
        const bool last = panel + 1 == end;
        if (last && i + 1 == blocks_.size())
          next_ = first_of(end < end_ ? end : after_);
        else
          next_ = b_at(last ? blocks_[i + 1] : block, last ? begin : panel + 1);
        tile_.column = panel * kPanelWidth<T>;
        tile_.columns = std::min(kPanelWidth<T>, p_.N - tile_.column);
        tile_.b = b_at(block, panel);
        tile_.b_stride = panel_vecs<T>(p_.N, tile_.column) * Vec<T>::kSize;
        tiles(a() + block.tap * rows_);
      }
    }
  }

  const T* first_of(int64_t panel) const {
    return panel < ceil_div(p_.N, kPanelWidth<T>) ? b_at(blocks_[0], panel) : nullptr;
  }

  // The tiles of one panel; rows are dealt out evenly so that no tile is left with a row or two.
  void tiles(const T* const* a) {
    const int64_t vecs = tile_.b_stride / Vec<T>::kSize, count = ceil_div(rows_, tile_rows(vecs));
    const int64_t block = tile_.taps * tile_.length * tile_.b_stride;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = i * rows_ / count, end = (i + 1) * rows_ / count;
      if (i + 1 < count) fetch_next(tile_, c() + end, (i + 2) * rows_ / count - end);
      // B of a single panel is at hand soon: then the next tile's rows of A, where they lie one behind the other. Else
      // its share of the panel's block that comes next; a tile with more steps than that goes on into the next share.
      const bool rows_next = p_.taps == 1 && p_.N <= kPanelWidth<T> && i + 1 < count;
      const T* panel_next = next_ ? next_ + i * block / count / kLine * kLine : nullptr;
      tile_.fetch = rows_next ? a[end] + tile_.a_offset : panel_next;
      tile_.fetch_stride = rows_next ? end - begin : kLine;
      tile_.a_rows = a + begin;
      tile_.c = c() + begin;
      tile_kernel_by_rows<T>(end - begin, vecs)(tile_);
    }
  }

  const T* b_at(const DepthBlock& block, int64_t panel) const {
    const int64_t column = panel * kPanelWidth<T>;
    return p_.packed_b + panel_offset(p_.taps * p_.length, column) +
           (block.tap * p_.length + block.offset) * panel_vecs<T>(p_.N, column) * Vec<T>::kSize;
  }

  T** c() const { return pointers_.template as<T*>(); }
  const T** a() const { return pointers_.template as<const T*>() + rows_; }

  static constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const RowsProduct<T>& p_;
  const std::vector<DepthBlock>& blocks_;
  const int64_t rows_;
  const Scratch pointers_, values_;
  int64_t end_ = 0, after_ = 0;  // the end of the task's panels, and what it is told comes after it
  const T* next_ = nullptr;      // the block of B after the one at hand
  Tile<T> tile_{};
};

}  // namespace

template <class T>
void multiply_rows(const RowsProduct<T>& p) {
  if (p.M <= 0 || p.N <= 0) return;
  const int64_t panels = ceil_div(p.N, kPanelWidth<T>);
  const auto blocks = depth_blocks(p.taps, p.length, kDepth<T>);
  const int64_t work = p.M * p.N * p.taps * p.length;
  const TaskGrid grid = p.band_rows ? band_grid(p.M, p.band_rows, work) : task_grid(p.M, panels, work, p.N > p.M);
  const auto first_panel = [&](int64_t task) {
    return task < grid.tasks() ? grid.group(task) * panels / grid.groups : panels;
  };
  const int64_t tile = tile_rows(panel_vecs<T>(p.N, 0));
  const int64_t tiles = ceil_div(p.M, tile);
  // Neighbouring bands that compute their rows read much the same.
  const int64_t grain = p.band_rows ? std::max<int64_t>(1, grid.bands / kTasksWanted) : 1;
  parallel_for(grid.tasks(), grain, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      const int64_t band = grid.band(i), group = grid.group(i);
      const int64_t row = band * tiles / grid.bands * tile;
      const int64_t rows = std::min(p.M, (band + 1) * tiles / grid.bands * tile) - row;
      RowsTask<T>(p, blocks, row, rows).run(first_panel(i), (group + 1) * panels / grid.groups, first_panel(i + 1));
    }
    if (p.stream) finish_streaming();
  });
}

template <class T>
bool sums_at_once(int64_t taps, int64_t length) {
  return depth_blocks(taps, length, kDepth<T>).size() == 1;
}

namespace {

// Largest block of C that one task of a BlockProduct keeps in the second-level cache.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kFewestBlockRows = 40;  // packing a panel of B is then a twentieth of the vector operations
template <class T>
constexpr int64_t kBlockColumns = kPanelWidth<T> * std::max<int64_t>(1, 512 / kPanelWidth<T>);

struct BlockPlan {
  int64_t row_blocks, column_blocks, slices;
};

// The sum is sliced where it is long. Else a single block is halved, so that two threads have work: by its rows, where
// enough of them are left to use a packed panel. Each half packs the other operand again, so this goes no further.
template <class T>
BlockPlan block_plan(int64_t M, int64_t N, int64_t K) {
  BlockPlan plan{ceil_div(M, kBlockRows), ceil_div(N, kBlockColumns<T>), 1};
  const int64_t by_work = M * N * K / kTaskOperations, blocks = plan.row_blocks * plan.column_blocks;
  if (blocks < kTasksWanted)
    plan.slices = std::max<int64_t>(1, std::min({ceil_div(kTasksWanted, blocks), K / (4 * kBlockDepth), by_work}));
  if (blocks > 1 || plan.slices > 1 || by_work < 2) return plan;
  if (M >= 2 * kFewestBlockRows)
    plan.row_blocks = 2;
  else if (N > kPanelWidth<T>)
    plan.column_blocks = 2;
  return plan;
}

// Deals out the cache lines of the next block of both operands to the tiles of this one: to each tile one line a step.
template <class T>
class FetchLines {
 public:
  FetchLines(int64_t k, const Source<T>& a, int64_t m0, int64_t rows, const Source<T>& b, int64_t n0, int64_t columns)
      : a_(a.data ? a.data + k * a.stride + m0 : nullptr),
        a_stride_(a.stride),
        a_lines_(a.data ? ceil_div(rows, kLine) : 0),
        b_(b.data ? b.data + k * b.stride + std::min(n0, b.width - std::min(columns, b.width)) : nullptr),
        b_stride_(b.stride),
        b_lines_(b.data ? ceil_div(std::min(columns, b.width), kLine) : 0) {}

  void next(Tile<T>& tile) {
    if (line_ < a_lines_) {
      tile.fetch = a_ + line_ * kLine;
      tile.fetch_stride = a_stride_;
    } else if (line_ < a_lines_ + b_lines_) {
      tile.fetch = b_ + (line_ - a_lines_) * kLine;
      tile.fetch_stride = b_stride_;
    } else {
      tile.fetch = nullptr;
    }
    ++line_;
  }

 private:
  static constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const T* a_;
  int64_t a_stride_, a_lines_;
  const T* b_;
  int64_t b_stride_, b_lines_, line_ = 0;
};

// Adds A(rows m0.., slice) * B(slice, columns n0..) to c, whose element (0, 0) belongs to (m0, n0).
template <class T>
struct BlockTask {
  const BlockProduct<T>& p;
  int64_t m0, rows, n0, columns, k0, k1;
  T* c;
  int64_t ldc;
  T alpha, beta;
  const Epilogue<T>* epilogue;

  void run() const {
    // A tile's values for a step lie together, and its steps one behind the other: the kernel reads on and on.
    const int64_t stride = ceil_div(ceil_div(rows, row_tiles()), kStepUnit) * kStepUnit;
    Scratch packed_a(row_tiles() * kBlockDepth * stride * sizeof(T)),
        packed_b(widest() * Vec<T>::kSize * kBlockDepth * sizeof(T));
    std::vector<T*> c_rows(rows);
    // finish_row wants pointers to column 0 of the whole matrix for the bias.
    for (int64_t i = 0; i < rows; ++i) c_rows[i] = c + i * ldc - n0;
    Tile<T> tile{};
    tile.taps = 1;
    tile.a_stride = stride;
    tile.a_padded = true;
    if (epilogue && epilogue->residual) tile.residual_shift = epilogue->residual - p.C;
    const int64_t parts = std::max<int64_t>(1, ceil_div(k1 - k0, kBlockDepth));
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t k = k0 + i * (k1 - k0) / parts, depth = k0 + (i + 1) * (k1 - k0) / parts - k;
      set_outcome(tile, i == 0, i + 1 == parts, alpha, beta, epilogue);
      pack_tiles(k, depth, stride, packed_a.as<T>());
      tile.length = depth;
      const bool more = i + 1 < parts;
      FetchLines<T> lines(k + depth, more ? p.a_source : Source<T>{}, m0, rows, more ? p.b_source : Source<T>{}, n0,
                          columns);
      panels(tile, k, packed_a.as<T>(), packed_b.as<T>(), c_rows.data(), lines);
    }
  }

  // Some steps of all rows at a time: A is read along its rows, which may be pages apart, and dealt out in the first
  // cache.
  void pack_tiles(int64_t k, int64_t depth, int64_t stride, T* packed) const {
    using V = Vec<T>;
    const int64_t line = 64 / static_cast<int64_t>(sizeof(T)), tiles = row_tiles();
    const int64_t width =
        (ceil_div(packed_size<T>(1, rows) + V::kSize, line) | 1) * line;  // other cache sets each step
    Scratch memory(kStepsAtOnce * width * sizeof(T));
    const T* steps = memory.as<T>();
    for (int64_t first = 0; first < depth; first += kStepsAtOnce) {
      const int64_t count = std::min(kStepsAtOnce, depth - first);
      p.pack_a(m0, rows, k + first, count, memory.as<T>(), width);
      for (int64_t t = 0; t < tiles; ++t) {
        const T* from = steps + t * rows / tiles;
        T* to = packed + (t * depth + first) * stride;
        for (int64_t i = 0; i < count; ++i, from += width, to += stride)
          for (int64_t j = 0; j < stride; j += V::kSize)
            V::load(from + j).store_n(to + j, std::min<int64_t>(stride - j, V::kSize));
      }
    }
  }

  void panels(Tile<T>& tile, int64_t k, const T* packed_a, T* packed_b, T* const* c_rows, FetchLines<T>& lines) const {
    const int64_t tiles = row_tiles(), count = panel_count();
    for (int64_t panel = 0; panel < count; ++panel) {
      const int64_t first = panel * vecs() / count, wide = (panel + 1) * vecs() / count - first,
                    width = wide * Vec<T>::kSize;
      tile.column = n0 + first * Vec<T>::kSize;
      tile.columns = std::min(width, n0 + columns - tile.column);
      tile.b = packed_b;
      tile.b_stride = width;
      p.pack_b(k, tile.length, tile.column, tile.columns, packed_b, width);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t begin = t * rows / tiles;
        tile.a_columns = packed_a + t * tile.length * tile.a_stride;
        tile.c = c_rows + begin;
        lines.next(tile);
        tile_kernel_by_columns<T>((t + 1) * rows / tiles - begin, wide)(tile);
      }
    }
  }

 private:
  static constexpr int64_t kStepUnit = 8, kStepsAtOnce = 16;
  int64_t vecs() const { return ceil_div(columns, int64_t{Vec<T>::kSize}); }
  // Panels are of about equal width, so that one number of rows a tile suits all of them.
  int64_t panel_count() const { return ceil_div(vecs(), int64_t{kPanelVecs}); }
  int64_t widest() const { return ceil_div(vecs(), panel_count()); }
  int64_t row_tiles() const { return ceil_div(rows, tile_rows(widest())); }
};

// C = alpha * (sum of the slices, in order) + beta * C, with the epilogue.
template <class T>
void sum_slices(const BlockProduct<T>& p, const T* partial, int64_t slices) {
  const int64_t grain = std::max<int64_t>(1, 65536 / (p.N * slices));
  const Epilogue<T>* epilogue = p.epilogue.empty() ? nullptr : &p.epilogue;
  parallel_for(p.M, grain, [&](int64_t begin, int64_t end) {
    Scratch row(p.N * sizeof(T));
    T* sum = row.as<T>();
    for (int64_t m = begin; m < end; ++m) {
      std::memcpy(sum, partial + m * p.N, p.N * sizeof(T));
      for (int64_t s = 1; s < slices; ++s) {
        const T* next = partial + (s * p.M + m) * p.N;
        for (int64_t n = 0; n < p.N; ++n) sum[n] += next[n];
      }
      finish_row(sum, p.C + m * p.ldc, int64_t{0}, p.N, p.alpha, p.beta, epilogue,
                 epilogue && epilogue->residual ? epilogue->residual - p.C : 0);
    }
  });
}

}  // namespace

template <class T>
void multiply_blocks(const BlockProduct<T>& p) {
  if (p.M <= 0 || p.N <= 0) return;
  const BlockPlan plan = block_plan<T>(p.M, p.N, p.K);
  const bool sliced = plan.slices > 1;
  Scratch partial(sliced ? plan.slices * p.M * p.N * sizeof(T) : sizeof(T));
  const int64_t blocks = plan.row_blocks * plan.column_blocks;
  const int64_t panels = ceil_div(p.N, kPanelWidth<T>);
  parallel_for(blocks * plan.slices, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t slice = i / blocks, row = i % blocks / plan.column_blocks, column = i % plan.column_blocks;
      const int64_t m0 = row * p.M / plan.row_blocks, m1 = (row + 1) * p.M / plan.row_blocks;
      const int64_t n0 = column * panels / plan.column_blocks * kPanelWidth<T>;
      const int64_t n1 = std::min(p.N, (column + 1) * panels / plan.column_blocks * kPanelWidth<T>);
      const int64_t k0 = slice * p.K / plan.slices, k1 = (slice + 1) * p.K / plan.slices;
      BlockTask<T> task{p, m0, m1 - m0, n0, n1 - n0, k0, k1, nullptr, 0, p.alpha, p.beta, &p.epilogue};
      task.ldc = sliced ? p.N : p.ldc;
      task.c = (sliced ? partial.as<T>() + slice * p.M * p.N : p.C) + m0 * task.ldc + n0;
      if (sliced) task.alpha = T(1), task.beta = T(0), task.epilogue = nullptr;
      task.run();
    }
  });
  if (sliced) sum_slices(p, partial.as<T>(), plan.slices);
}

template <class T>
void pack_all(bool transposed, const T* B, int64_t ldb, int64_t K, int64_t N, T* packed) {
  const int64_t panels = ceil_div(N, kPanelWidth<T>), rows = 512, bands = ceil_div(K, rows);
  if (K == 0) return;
  const int64_t grain = std::max<int64_t>(1, kPackedAtOnce / (kPanelWidth<T> * std::min(K, rows)));
  parallel_for(panels * bands, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n0 = i / bands * kPanelWidth<T>, k0 = i % bands * rows;
      const int64_t width = panel_vecs<T>(N, n0) * Vec<T>::kSize;
      pack_b(transposed, B, ldb, k0, std::min(rows, K - k0), n0, std::min(width, N - n0),
             packed + panel_offset(K, n0) + k0 * width, width);
    }
  });
}

#define PADDOCK_INSTANTIATE(T)                              \
  template void multiply_rows<T>(const RowsProduct<T>&);    \
  template bool sums_at_once<T>(int64_t, int64_t);          \
  template void multiply_blocks<T>(const BlockProduct<T>&); \
  template void pack_all<T>(bool, const T*, int64_t, int64_t, int64_t, T*);
PADDOCK_INSTANTIATE(float)
PADDOCK_INSTANTIATE(double)
#undef PADDOCK_INSTANTIATE

}  // namespace paddock::cpu
