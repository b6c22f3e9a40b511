// Kernels of ops/indexing.cc but sort and topk. Tensors are seen as [outer, n, inner] around the axis.
#include "cpu/movement/indices.h"
#include "cpu/movement/move.h"

namespace paddock::cpu {
namespace {

struct Around {
  int64_t outer, n, inner;
  Around(int64_t outer, int64_t n, int64_t inner) : outer(outer), n(n), inner(inner) {}
  Around(const Shape& x, int axis) : Around(x.count(0, axis), x[axis], x.count(axis + 1, x.rank())) {}
};

// to[r] = from[source(r)] for rows of `bytes`; source -1 gives zeros.
template <class F>
void gather_rows(char* to, const char* from, int64_t rows, int64_t bytes, F source) {
  parallel_for(rows, copy_grain(bytes), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t s = source(r);
      if (s < 0)
        std::memset(to + r * bytes, 0, bytes);
      else
        copy_block(to + r * bytes, from + s * bytes, bytes);
    }
  });
}

PADDOCK_CPU_KERNEL(gather) {
  const Tensor& x = c.in("x");
  const Around d(x.shape(), c.axis("axis", x.shape().rank()));
  const int64_t count = c.in("indices").numel();
  const CheckedIndices indices(c, "indices", d.n, /*wrap=*/true, "the axis");
  const auto* index = indices.data();
  gather_rows(c.out(0).data<char>(), x.data<char>(), d.outer * count, d.inner * dtype_size(x.dtype()),
              [=](int64_t r) { return r / count * d.n + index[r % count]; });
}

// Which updates go to each of n places: those of place p are order[start[p]] ... order[start[p + 1] - 1], ascending.
struct Groups {
  std::vector<int64_t> start, order;

  Groups(const int64_t* index, int64_t count, int64_t n) : start(n + 1), order(count) {
    for (int64_t i = 0; i < count; ++i) ++start[index[i] + 1];
    for (int64_t p = 0; p < n; ++p) start[p + 1] += start[p];
    std::vector<int64_t> next(start.begin(), start.end() - 1);
    for (int64_t i = 0; i < count; ++i) order[next[index[i]]++] = i;
  }
};

// y[o, index[i], :] += updates[o, i, :]; each place is summed by one thread, in the order of i.
template <class T>
void add_rows(T* y, const T* updates, const int64_t* index, int64_t count, const Around& d) {
  if (count == 0 || d.inner == 0) return;
  const Groups groups(index, count, d.n);
  const int64_t work = (count / std::max<int64_t>(1, d.n) + 1) * d.inner;
  parallel_for(d.outer * d.n, row_grain(work), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t o = r / d.n, p = r % d.n;
      T* out = y + r * d.inner;
      for (int64_t k = groups.start[p]; k < groups.start[p + 1]; ++k) {
        const T* in = updates + (o * count + groups.order[k]) * d.inner;
        for (int64_t j = 0; j < d.inner; ++j) out[j] += in[j];
      }
    }
  });
}

void copy_unless_same(const Tensor& x, const Tensor& y) {
  if (x.raw() != y.raw()) copy_rows(y.data<char>(), y.bytes(), x.data<char>(), y.bytes(), 1, y.bytes());
}

PADDOCK_CPU_KERNEL(scatter_add) {
  const Tensor &x = c.in("x"), &y = c.out(0);
  const Around d(x.shape(), c.axis("axis", x.shape().rank()));
  const CheckedIndices indices(c, "indices", d.n, /*wrap=*/true, "the axis");
  copy_unless_same(x, y);
  dispatch_number(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    add_rows(y.data<T>(), c.in("updates").data<T>(), indices.data(), c.in("indices").numel(), d);
  });
}

// For each of n places the last index that names it, or -1.
std::vector<int64_t> last_at(const int64_t* index, int64_t count, int64_t n) {
  std::vector<int64_t> last(static_cast<size_t>(n), -1);
  for (int64_t i = 0; i < count; ++i) last[static_cast<size_t>(index[i])] = i;
  return last;
}

PADDOCK_CPU_KERNEL(scatter) {
  const Tensor &x = c.in("x"), &y = c.out(0);
  const Around d(x.shape(), c.axis("axis", x.shape().rank()));
  const int64_t count = c.in("indices").numel(), bytes = d.inner * dtype_size(x.dtype());
  const CheckedIndices indices(c, "indices", d.n, /*wrap=*/true, "the axis");
  copy_unless_same(x, y);
  const char* from = c.in("updates").data<char>();
  char* to = y.data<char>();
  const int64_t* index = indices.data();
  if (count < d.n / 8) {  // a few places of many: one after the other, so that the last counts, without a table of all
    parallel_for(d.outer, copy_grain(bytes * std::max<int64_t>(1, count)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin * count; r < end * count; ++r)
        copy_block(to + (r / count * d.n + index[r % count]) * bytes, from + r * bytes, bytes);
    });
    return;
  }
  const auto last = last_at(index, count, d.n);
  parallel_for(d.outer * count, copy_grain(bytes), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t p = index[r % count];
      if (last[static_cast<size_t>(p)] == r % count)
        copy_block(to + (r / count * d.n + p) * bytes, from + r * bytes, bytes);
    }
  });
}

PADDOCK_CPU_KERNEL(scatter_pick) {
  const Tensor& x = c.in("x");
  const Around d(x.shape(), c.axis("axis", x.shape().rank()));
  const int64_t count = c.in("indices").numel();
  const CheckedIndices indices(c, "indices", d.n, /*wrap=*/true, "the axis");
  const auto last = last_at(indices.data(), count, d.n);
  const int64_t* index = indices.data();
  gather_rows(c.out(0).data<char>(), x.data<char>(), d.outer * count, d.inner * dtype_size(x.dtype()), [&](int64_t r) {
    const int64_t i = r % count, p = index[i];
    return last[static_cast<size_t>(p)] == i ? r / count * d.n + p : -1;
  });
}

// x as [1, slices, rest] for tuples of indices along its first axes.
Around slices_of(const Shape& x, int64_t tuple) {
  const int axes = static_cast<int>(tuple);
  return {1, x.count(0, axes), x.count(axes, x.rank())};
}

PADDOCK_CPU_KERNEL(gather_nd) {
  const Tensor& x = c.in("x");
  const CheckedTuples tuples(c, x.shape());
  const Around d = slices_of(x.shape(), c.in("indices").shape().back());
  gather_rows(c.out(0).data<char>(), x.data<char>(), tuples.count(), d.inner * dtype_size(x.dtype()),
              [index = tuples.data()](int64_t r) { return index[r]; });
}

PADDOCK_CPU_KERNEL(scatter_nd_add) {
  const Tensor &x = c.in("x"), &y = c.out(0);
  const CheckedTuples tuples(c, x.shape());
  const Around d = slices_of(x.shape(), c.in("indices").shape().back());
  copy_unless_same(x, y);
  dispatch_number(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    add_rows(y.data<T>(), c.in("updates").data<T>(), tuples.data(), tuples.count(), d);
  });
}

PADDOCK_CPU_KERNEL(take_along_axis) {
  const Tensor& x = c.in("x");
  const int axis = c.axis("axis", x.shape().rank());
  const Around d(x.shape(), axis);
  const int64_t m = c.in("indices").shape()[axis];
  const CheckedIndices indices(c, "indices", d.n, /*wrap=*/true, "the axis");
  const auto* index = indices.data();
  dispatch_size(dtype_size(x.dtype()), [&](auto tag) {
    using U = typename decltype(tag)::type;
    const U* in = x.data<U>();
    U* out = c.out(0).data<U>();
    parallel_for(d.outer * m, row_grain(d.inner), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t j = 0, k = r * d.inner; j < d.inner; ++j, ++k) out[k] = in[(r / m * d.n + index[k]) * d.inner + j];
    });
  });
}

PADDOCK_CPU_KERNEL(put_along_axis_add) {
  const Tensor &x = c.in("x"), &y = c.out(0);
  const int axis = c.axis("axis", x.shape().rank());
  const Around d(x.shape(), axis);
  const int64_t m = c.in("indices").shape()[axis];
  const CheckedIndices indices(c, "indices", d.n, /*wrap=*/true, "the axis");
  copy_unless_same(x, y);
  const auto* index = indices.data();
  constexpr int64_t kColumns = 64;  // of the inner extent that one task takes
  const int64_t blocks = (d.inner + kColumns - 1) / kColumns;
  dispatch_number(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = c.in("updates").data<T>();
    T* out = y.data<T>();
    parallel_for(d.outer * blocks, row_grain(m * std::min(d.inner, kColumns)), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t o = t / blocks, first = t % blocks * kColumns, last = std::min(d.inner, first + kColumns);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = first, k = (o * m + i) * d.inner + first; j < last; ++j, ++k)
            out[(o * d.n + index[k]) * d.inner + j] += in[k];
      }
    });
  });
}

PADDOCK_CPU_KERNEL(embedding) {
  const Tensor& weight = c.in("weight");
  const auto padding = c.attr<int64_t>("padding_idx");
  const CheckedIndices ids(c, "ids", weight.shape()[0], /*wrap=*/false, "weight");
  const auto* id = ids.data();
  gather_rows(c.out(0).data<char>(), weight.data<char>(), c.in("ids").numel(),
              weight.shape()[1] * dtype_size(weight.dtype()), [=](int64_t r) { return id[r] == padding ? -1 : id[r]; });
}

PADDOCK_CPU_KERNEL(embedding_grad) {
  const Tensor& dweight = c.out(0);
  const auto padding = c.attr<int64_t>("padding_idx");
  const int64_t rows = dweight.shape()[0], count = c.in("ids").numel();
  const CheckedIndices ids(c, "ids", rows, /*wrap=*/false, "weight");
  std::memset(dweight.raw(), 0, dweight.bytes());
  dispatch_float(dweight.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    add_rows(dweight.data<T>(), c.in("dy").data<T>(), ids.data(), count, Around(dweight.shape(), 0));
    if (padding >= 0)  // what went to the padding row is taken out again
      std::memset(dweight.data<T>() + padding * dweight.shape()[1], 0, dweight.shape()[1] * sizeof(T));
  });
}

PADDOCK_CPU_KERNEL(embedding_grad_rows) {
  const Tensor& values = c.out("values");
  const auto padding = c.attr<int64_t>("padding_idx");
  const int64_t count = values.shape()[0], width = values.shape()[1];
  const CheckedIndices ids(c, "ids", c.in("like").shape()[0], /*wrap=*/false, "weight");
  const int64_t* id = ids.data();
  std::vector<int64_t> order(static_cast<size_t>(count));  // by id, places of one id in order
  for (int64_t i = 0; i < count; ++i) order[static_cast<size_t>(i)] = i;
  std::stable_sort(order.begin(), order.end(), [=](int64_t a, int64_t b) { return id[a] < id[b]; });
  auto* rows = c.out("rows").data<int64_t>();
  dispatch_float(values.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = c.in("dy").data<T>();
    T* out = values.data<T>();
    parallel_for(count, row_grain(width), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t at = order[static_cast<size_t>(k)], v = id[at];
        const bool first = k == 0 || id[order[static_cast<size_t>(k - 1)]] != v, counts = first && v != padding;
        rows[at] = counts ? v : -1;
        T* to = out + at * width;
        std::fill(to, to + width, T{0});
        for (int64_t s = k; counts && s < count && id[order[static_cast<size_t>(s)]] == v; ++s) {
          const T* from = dy + order[static_cast<size_t>(s)] * width;
          for (int64_t j = 0; j < width; ++j) to[j] += from[j];
        }
      }
    });
  });
}

PADDOCK_CPU_KERNEL(one_hot) {
  const Tensor& y = c.out(0);
  const auto depth = c.attr<int64_t>("depth");
  const CheckedIndices ids(c, "ids", depth, /*wrap=*/false, "depth");
  const auto* id = ids.data();
  dispatch_all(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = y.data<T>();
    T one;
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
      one = T(1.0f);
    else
      one = static_cast<T>(1);
    parallel_for(c.in("ids").numel(), row_grain(depth), [&](int64_t begin, int64_t end) {
      std::memset(static_cast<void*>(out + begin * depth), 0, (end - begin) * depth * sizeof(T));
      for (int64_t i = begin; i < end; ++i) out[i * depth + id[i]] = one;
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
