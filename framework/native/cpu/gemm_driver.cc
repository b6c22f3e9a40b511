// Cache blocking and the split of work into tasks, for both loops. All sizes follow from the shapes alone.
#include "cpu/gemm_driver.h"

#include <vector>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kTasksWanted = 32;          // enough to even out the threads of a large machine
constexpr int64_t kTaskOperations = 1 << 21;  // multiply-adds that make a task worth its start

// Depth of a block of the sum: a panel of B of this depth stays in the first-level cache.
template <class T>
constexpr int64_t kDepth = std::min<int64_t>(256, 32768 / (kPanelWidth<T> * static_cast<int64_t>(sizeof(T))));

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

// Rows of a task and panels of a task.
struct TaskShape {
  int64_t rows, panels;
};

TaskShape task_shape(int64_t M, int64_t panels, int64_t work_of_row) {
  TaskShape s{192, panels};
  const auto tasks = [&] { return ceil_div(M, s.rows) * ceil_div(panels, s.panels); };
  const auto operations = [&] { return s.rows * work_of_row * s.panels / panels; };
  while (tasks() < kTasksWanted && operations() >= 2 * kTaskOperations) {
    if (s.rows > 48 && s.rows / 2 < M)
      s.rows /= 2;
    else if (s.panels > 1)
      s.panels = ceil_div(s.panels, 2);
    else if (s.rows > 12)
      s.rows /= 2;
    else
      break;
  }
  s.rows = std::min(s.rows, M);
  return s;
}

// `epilogue` may be null.
template <class T>
void set_outcome(Tile<T>& tile, bool first, bool last, T alpha, T beta, const Epilogue<T>* epilogue) {
  tile.add_residual = first && epilogue && epilogue->residual;
  tile.alpha = alpha;
  tile.beta = first ? beta : T(1);
  tile.epilogue = last && epilogue && !epilogue->empty() ? epilogue : nullptr;
}

// Asks for what the next tile reads and writes: its rows of C, and its rows of A unless an earlier panel used them.
// Inlined by force: GCC takes a function of prefetches alone for one without effect and drops its calls.
template <class T>
PADDOCK_INLINE void fetch_next(const Tile<T>& tile, const T* const* a, T* const* c, int64_t rows) {
  const int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < tile.columns; j += line) __builtin_prefetch(c[i] + tile.column + j, 1);
    if (a)
      for (int64_t k = 0; k < tile.length; k += line) __builtin_prefetch(a[i] + tile.a_offset + k);
  }
}

// The tiles of one panel; rows are dealt out evenly so that no tile is left with a row or two.
template <class T>
void rows_of_panel(Tile<T>& tile, int64_t vecs, int64_t rows, const T* const* a, T* const* c, bool new_rows) {
  const int64_t tiles = ceil_div(rows, tile_rows(vecs));
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = i * rows / tiles, count = (i + 1) * rows / tiles - begin;
    if (i + 1 < tiles) fetch_next(tile, new_rows ? a + begin + count : nullptr, c + begin + count, count);
    tile.a_rows = a + begin;
    tile.c = c + begin;
    tile_kernel_by_rows<T>(count, vecs)(tile);
  }
}

template <class T>
void rows_task(const RowsProduct<T>& p, const std::vector<DepthBlock>& blocks, int64_t begin, int64_t rows,
               int64_t panel_begin, int64_t panel_end) {
  Scratch pointers((p.taps + 1) * rows * sizeof(T*));
  Scratch values(std::max<int64_t>(1, p.scratch_per_row * rows) * sizeof(T));
  T** c = pointers.as<T*>();
  const T** a = pointers.as<const T*>() + rows;
  p.rows_at(begin, rows, a, c, values.as<T>());

  Tile<T> tile{};
  tile.residual_shift = p.residual_shift;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const DepthBlock& block = blocks[i];
    set_outcome(tile, i == 0, i + 1 == blocks.size(), p.alpha, p.beta, &p.epilogue);
    tile.a_stride = rows;
    tile.a_offset = block.offset;
    tile.taps = block.taps;
    tile.length = block.length;
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      tile.column = panel * kPanelWidth<T>;
      tile.columns = std::min(kPanelWidth<T>, p.N - tile.column);
      const int64_t vecs = panel_vecs<T>(p.N, tile.column);
      tile.b_stride = vecs * Vec<T>::kSize;
      tile.b = p.packed_b + panel_offset(p.taps * p.length, tile.column) +
               (block.tap * p.length + block.offset) * tile.b_stride;
      rows_of_panel(tile, vecs, rows, a + block.tap * rows, c, p.taps == 1 && panel == panel_begin);
    }
  }
}

}  // namespace

template <class T>
void multiply_rows(const RowsProduct<T>& p) {
  if (p.M <= 0 || p.N <= 0) return;
  const int64_t panels = ceil_div(p.N, kPanelWidth<T>);
  const TaskShape task = task_shape(p.M, panels, p.taps * p.length * p.N);
  const auto blocks = depth_blocks(p.taps, p.length, kDepth<T>);
  const int64_t groups = ceil_div(panels, task.panels), bands = ceil_div(p.M, task.rows);
  parallel_for(bands * groups, 1, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      const int64_t begin = (i / groups) * task.rows, panel = (i % groups) * task.panels;
      rows_task(p, blocks, begin, std::min(task.rows, p.M - begin), panel, std::min(panel + task.panels, panels));
    }
  });
}

namespace {

// Largest block of C that one task of a BlockProduct keeps in the second-level cache.
constexpr int64_t kBlockRows = 192;
template <class T>
constexpr int64_t kBlockColumns = kPanelWidth<T> * std::max<int64_t>(1, 256 / kPanelWidth<T>);

struct BlockPlan {
  int64_t row_blocks, column_blocks, slices;
};

template <class T>
BlockPlan block_plan(int64_t M, int64_t N, int64_t K) {
  BlockPlan plan{ceil_div(M, kBlockRows), ceil_div(N, kBlockColumns<T>), 1};
  const int64_t blocks = plan.row_blocks * plan.column_blocks;
  if (blocks < kTasksWanted) {
    const int64_t by_work = M * N * K / kTaskOperations;
    plan.slices = std::max<int64_t>(1, std::min({ceil_div(kTasksWanted, blocks), K / (4 * kDepth<T>), by_work}));
  }
  return plan;
}

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
    // An odd number of cache lines a row keeps the rows of packed A in different cache sets.
    const int64_t line = 64 / static_cast<int64_t>(sizeof(T)), stride = (ceil_div(rows, line) | 1) * line;
    Scratch packed_a(stride * kDepth<T> * sizeof(T)), packed_b(packed_size<T>(kDepth<T>, columns) * sizeof(T));
    std::vector<T*> c_rows(rows);
    // finish_row wants pointers to column 0 of the whole matrix for the bias.
    for (int64_t i = 0; i < rows; ++i) c_rows[i] = c + i * ldc - n0;
    Tile<T> tile{};
    tile.taps = 1;
    tile.a_stride = stride;
    if (epilogue && epilogue->residual) tile.residual_shift = epilogue->residual - p.C;
    const int64_t parts = std::max<int64_t>(1, ceil_div(k1 - k0, kDepth<T>));
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t k = k0 + i * (k1 - k0) / parts, depth = k0 + (i + 1) * (k1 - k0) / parts - k;
      set_outcome(tile, i == 0, i + 1 == parts, alpha, beta, epilogue);
      p.pack_a(m0, rows, k, depth, packed_a.as<T>(), stride);
      tile.length = depth;
      panels(tile, k, packed_a.as<T>(), packed_b.as<T>(), c_rows.data());
    }
  }

  void panels(Tile<T>& tile, int64_t k, const T* packed_a, T* packed_b, T* const* c_rows) const {
    for (int64_t n = n0; n < n0 + columns; n += kPanelWidth<T>) {
      const int64_t vecs = panel_vecs<T>(n0 + columns, n), width = vecs * Vec<T>::kSize;
      tile.column = n;
      tile.columns = std::min(width, n0 + columns - n);
      tile.b = packed_b;
      tile.b_stride = width;
      p.pack_b(k, tile.length, n, tile.columns, packed_b, width);
      const int64_t tiles = ceil_div(rows, tile_rows(vecs));
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t begin = i * rows / tiles, count = (i + 1) * rows / tiles - begin;
        tile.a_columns = packed_a + begin;
        tile.c = c_rows + begin;
        tile_kernel_by_columns<T>(count, vecs)(tile);
      }
    }
  }
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
  const int64_t grain = std::max<int64_t>(1, 65536 / (kPanelWidth<T> * std::min(K, rows)));
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
  template void multiply_blocks<T>(const BlockProduct<T>&); \
  template void pack_all<T>(bool, const T*, int64_t, int64_t, int64_t, T*);
PADDOCK_INSTANTIATE(float)
PADDOCK_INSTANTIATE(double)
#undef PADDOCK_INSTANTIATE

}  // namespace paddock::cpu
