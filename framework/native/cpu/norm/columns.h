// Sums over the rows of a matrix [rows, C] and per-column formulas applied to it, at memory speed for any C.
// Narrow rows are joined into wider ones, so that the inner loop is always long and vectorised; work is split by size.
#pragma once
#include <array>
#include <numeric>
#include <vector>

#include "cpu/kernel.h"

namespace paddock::cpu {

// How a matrix [rows, channels] is walked: `group` rows joined to one of `width` columns, split into tasks of `chunk`
// joined rows by `block` columns. The rows that do not fill a joined one are its tail, which the last chunk takes.
struct Columns {
  static constexpr int64_t kBlock = 128;      // columns of a task when rows are wide
  static constexpr int64_t kMaxWidth = 1024;  // above any joined width and any block

  int64_t rows, channels, group, width, block, chunk;

  Columns(int64_t rows_, int64_t channels_) : rows(rows_), channels(channels_) {
    group = 1;
    if (channels > 0 && channels < 64) {
      group = 16 / std::gcd(channels, int64_t{16});
      while (group * channels < 64) group *= 2;
    }
    width = group * channels;
    block = width;
    if (group == 1 && channels > kBlock) {
      int64_t blocks = (channels + kBlock - 1) / kBlock;
      block = ((channels + blocks - 1) / blocks + 15) / 16 * 16;
    }
    chunk = std::max<int64_t>(16, kGrain / std::max<int64_t>(1, block));
  }

  int64_t joined_rows() const { return rows / group; }
  int64_t tail() const { return (rows - joined_rows() * group) * channels; }  // elements
  int64_t chunks() const { return std::max<int64_t>(1, (joined_rows() + chunk - 1) / chunk); }
  int64_t blocks() const { return block > 0 ? (width + block - 1) / block : 0; }
  bool last(int64_t i) const { return i + 1 == chunks(); }
  // Rows of the original matrix in chunk i.
  int64_t rows_of(int64_t i) const { return last(i) ? rows - i * chunk * group : chunk * group; }
};

// One task: joined rows [begin, end) of columns [first, first + count), and `tail` columns of the tail row.
struct ColumnTask {
  int64_t chunk, begin, end, first, count, tail;
};

// Calls body(task) for every task, in parallel.
template <class F>
void for_each_task(const Columns& m, F&& body) {
  const int64_t blocks = m.blocks();
  parallel_for(m.chunks() * blocks, 1, [&](int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t) {
      int64_t i = t / blocks, first = (t % blocks) * m.block;
      int64_t begin = i * m.chunk, end = std::min(begin + m.chunk, m.joined_rows());
      body(ColumnTask{i, begin, end, first, std::min(m.block, m.width - first), m.last(i) ? m.tail() : 0});
    }
  });
}

// acc[k][c] = sum over the task's rows of term k; f(element, column of the task, terms) adds to K terms.
template <class T, size_t K, class F>
void sum_task(const Columns& m, const ColumnTask& t, std::array<T*, K> acc, F&& f) {
  constexpr int kUnroll = 8;
  for (T* a : acc) std::fill(a, a + t.count, T{0});
  int64_t row = t.begin;
  auto rows = [&](auto unroll, int64_t columns) {
    const int64_t at = row * m.width + t.first;
#pragma GCC ivdep
    for (int64_t c = 0; c < columns; ++c) {
      std::array<T, K> terms{};
#pragma GCC unroll 8
      for (int u = 0; u < decltype(unroll)::value; ++u) f(at + u * m.width + c, c, terms);
#pragma GCC unroll 2
      for (size_t k = 0; k < K; ++k) acc[k][c] += terms[k];
    }
  };
  for (; row + kUnroll <= t.end; row += kUnroll) rows(std::integral_constant<int, kUnroll>{}, t.count);
  for (; row < t.end; ++row) rows(std::integral_constant<int, 1>{}, t.count);
  if (t.tail > 0) rows(std::integral_constant<int, 1>{}, std::min(t.tail, t.count));
  // Joined rows hold every channel `group` times.
  for (T* a : acc)
    for (int64_t g = 1; g < m.group; ++g)
      for (int64_t c = 0; c < m.channels; ++c) a[c] += a[g * m.channels + c];
}

// Repeats the first `channels` values of `v` over a whole joined row.
template <class T>
void repeat(const Columns& m, T* v) {
  for (int64_t c = m.channels; c < m.width; ++c) v[c] = v[c - m.channels];
}

// For every element i of column c: body(i, c), where c counts within a joined row (see `repeat`). body may read and
// write element i of the same buffer. The last rows come first: a pass over the same matrix has just left them in the
// cache, and the next operator starts with the first ones.
template <class F>
void for_each_element(const Columns& m, const F& body) {
  if (m.width == 0) return;
  const int64_t elements = m.rows * m.channels, chunk = m.width * row_grain(m.width);
  const int64_t chunks = (elements + chunk - 1) / chunk;
  parallel_for(chunks, 1, [&](int64_t from, int64_t to) {
    const F local = body;  // what body holds by value is then a register, and not a load behind a condition
    for (int64_t t = from; t < to; ++t) {
      const int64_t begin = (chunks - 1 - t) * chunk, end = std::min(begin + chunk, elements);
      for (int64_t at = begin; at < end; at += m.width) {
        const int64_t n = std::min(m.width, end - at);
#pragma GCC ivdep
        for (int64_t c = 0; c < n; ++c) local(at + c, c);
      }
    }
  });
}

}  // namespace paddock::cpu
