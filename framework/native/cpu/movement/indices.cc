// The check of indices; see indices.h.
#include "cpu/movement/indices.h"

namespace paddock::cpu {
namespace {

// "indices[2, 0]": where the element with number i of a tensor stands.
std::string place(const char* name, const Shape& shape, int64_t i) {
  Shape at = shape;
  for (int a = shape.rank() - 1; a >= 0; --a) {
    at[a] = i % shape[a];
    i /= shape[a];
  }
  return shape.rank() == 0 ? name : cat(name, at);
}

}  // namespace

CheckedIndices::CheckedIndices(const KernelContext& c, const char* name, int64_t extent, bool wrap, const char* what)
    : memory_(c.in(name).numel() * sizeof(int64_t)) {
  const Tensor& t = c.in(name);
  auto* out = memory_.as<int64_t>();
  dispatch_index(t.dtype(), [&](auto tag) {
    const auto* in = t.data<typename decltype(tag)::type>();
    for (int64_t i = 0; i < t.numel(); ++i) {
      const int64_t v = in[i], index = v < 0 && wrap ? v + extent : v;
      if (index < 0 || index >= extent)
        fail(ErrorKind::kAttribute, c.op().name, ": ", place(name, t.shape(), i), " is ", v, " but ", what, " has ",
             extent, "; it must lie in [", wrap ? -extent : 0, ", ", extent - 1, "]");
      out[i] = index;
    }
  });
}

CheckedTuples::CheckedTuples(const KernelContext& c, const Shape& x)
    : count_(c.in("indices").shape().count(0, c.in("indices").shape().rank() - 1)),
      memory_(static_cast<size_t>(count_) * sizeof(int64_t)) {
  const Tensor& t = c.in("indices");
  const int64_t width = t.shape().back();
  auto* out = memory_.as<int64_t>();
  dispatch_index(t.dtype(), [&](auto tag) {
    const auto* in = t.data<typename decltype(tag)::type>();
    for (int64_t i = 0; i < count_; ++i) {
      out[i] = 0;
      for (int64_t k = 0; k < width; ++k) {
        const int64_t extent = x[static_cast<int>(k)], v = in[i * width + k], index = v < 0 ? v + extent : v;
        if (index < 0 || index >= extent)
          fail(ErrorKind::kAttribute, c.op().name, ": ", place("indices", t.shape(), i * width + k), " is ", v,
               " but axis ", k, " of x ", x, " has ", extent, "; it must lie in [", -extent, ", ", extent - 1, "]");
        out[i] = out[i] * extent + index;
      }
    }
  });
}

}  // namespace paddock::cpu
