// Operators that move elements to other places without computing: transpose, concat, split, slice, pad and their kin.
#include <cmath>

#include "op/choice.h"
#include "op/slicing.h"

namespace paddock {
namespace {

constexpr const char* kPadsDoc = "Two numbers an axis, (before, after, before, after, ...), each at least 0.";
constexpr const char* kModeDoc =
    "What the new elements hold: 'constant' (`value`), 'reflect' (mirrored, the edge not repeated) or 'edge' (the "
    "nearest element).";

// perm as given, or the reversal when it is empty; checked to name every axis once.
Ints permutation(const InferContext& c, int rank) {
  Ints perm = c.attr<Ints>("perm");
  if (perm.empty())
    for (int i = rank - 1; i >= 0; --i) perm.push_back(i);
  uint32_t seen = 0;
  for (int64_t p : perm) {
    int64_t a = p < 0 ? p + rank : p;
    if (a >= 0 && a < rank) seen |= 1u << a;
  }
  if (static_cast<int>(perm.size()) != rank || seen != (1u << rank) - 1)
    c.attr_error("perm ", Shape(perm), " must name each of the ", rank, " axes of x ", c.shape(0), " once");
  return perm;
}

PADDOCK_OP(transpose, "x -> y")
    .doc("Axes of `x` in another order: axis i of y is axis perm[i] of x.")
    .attr("perm", AttrType::kInts, Ints{}, "Axes of x in y's order; none given reverses them.")
    .any_type()
    .infer([](InferContext& c) {
      const Shape& x = c.shape(0);
      Shape y;
      for (int64_t p : permutation(c, x.rank())) y.push_back(x.dim(static_cast<int>(p)));
      c.out(0, y, c.in(0).dtype);
    });

PADDOCK_OP(concat, "xs... -> y")
    .doc("Joins tensors along an axis; their other extents agree.  xs: [..., n_i, ...]; y: [..., sum n_i, ...].")
    .attr("axis", AttrType::kInt, "The axis to join along; negative counts from the end.")
    .any_type()
    .picking()
    .recompute()
    .along("axis")
    .infer([](InferContext& c) {
      if (c.input_count() == 0) c.shape_error("there is nothing to join; give at least one tensor");
      for (int i = 1; i < c.input_count(); ++i)
        if (c.in(i).dtype != c.in(0).dtype)
          c.dtype_error("xs[", i, "] is ", c.in(i).dtype, " but xs[0] is ", c.in(0).dtype,
                        "; cast one to the other's type");
      Shape y = c.shape(0);
      if (y.rank() == 0) c.shape_error("xs[0] has no axes; use stack to join scalars");
      const int axis = c.axis("axis", y.rank());
      for (int i = 1; i < c.input_count(); ++i) {
        const Shape& x = c.shape(i);
        bool fits = x.rank() == y.rank();
        for (int a = 0; fits && a < y.rank(); ++a) fits = a == axis || x[a] == y[a];
        if (!fits)
          c.shape_error("xs[", i, "] of shape ", x, " and xs[0] of shape ", c.shape(0), " may differ on axis ", axis,
                        " only");
        y[axis] += x[axis];
      }
      c.out(0, y, c.in(0).dtype);
    });

PADDOCK_OP(split, "x -> ys...")
    .doc("Cuts `x` along an axis into parts of given extents, one output each.")
    .attr("axis", AttrType::kInt, "The axis to cut; negative counts from the end.")
    .attr("sizes", AttrType::kInts, "Extents of the parts; one of them may be -1, the rest.")
    .any_type()
    .picking()
    .along("axis")
    .infer([](InferContext& c) {
      Shape y = c.shape(0);
      const int axis = c.axis("axis", y.rank());
      Ints sizes = c.attr<Ints>("sizes");
      int64_t known = 0, have = y[axis], free = -1;
      for (size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] < -1 || (sizes[i] == -1 && free >= 0))
          c.attr_error("sizes ", Shape(sizes), " may hold extents and one -1");
        if (sizes[i] == -1)
          free = static_cast<int64_t>(i);
        else if (__builtin_add_overflow(known, sizes[i], &known))
          c.attr_error("sizes ", Shape(sizes), " sum to more than a number holds");
      }
      if (sizes.empty() || known > have || (free < 0 && known != have))
        c.shape_error("sizes sum to ", known, " but x has extent ", have, " on axis ", axis, " of ", y);
      if (free >= 0) sizes[free] = have - known;
      for (size_t i = 0; i < sizes.size(); ++i) {
        y[axis] = sizes[i];
        c.out(static_cast<int>(i), y, c.in(0).dtype);
      }
    });

PADDOCK_OP(split_like, "x, likes... -> ys...")
    .doc("Cuts `x` along an axis into parts as long as `likes` are there: what undoes concat.")
    .attr("axis", AttrType::kInt, "The axis to cut; negative counts from the end.")
    .shape_only("likes")
    .any_type()
    .infer([](InferContext& c) {
      Shape y = c.shape(0);
      const int axis = c.axis("axis", y.rank());
      int64_t sum = 0;
      for (int i = 1; i < c.input_count(); ++i) {
        if (c.shape(i).rank() != y.rank())
          c.shape_error("likes[", i - 1, "] has ", c.shape(i).rank(), " axes but x ", y, " has ", y.rank());
        sum += c.shape(i)[axis];
      }
      if (sum != y[axis])
        c.shape_error("likes sum to ", sum, " on axis ", axis, " but x has extent ", y[axis], " in ", c.shape(0));
      for (int i = 1; i < c.input_count(); ++i) {
        y[axis] = c.shape(i)[axis];
        c.out(i - 1, y, c.in(0).dtype);
      }
    });

constexpr const char* kStartsDoc = "First index on each axis; negative counts from the end.";
constexpr const char* kEndsDoc = "Index after the last on each axis; negative counts from the end, beyond it is cut.";
constexpr const char* kAxesDoc = "The axes that starts, ends and steps speak of; none given: the first ones.";
constexpr const char* kStepsDoc = "Distance from one taken element to the next, not 0; none given: 1.";

PADDOCK_OP(slice, "x -> y")
    .doc("x[start:end:step] on some axes, with Python's rules for negative and far indices.")
    .attr("starts", AttrType::kInts, kStartsDoc)
    .attr("ends", AttrType::kInts, kEndsDoc)
    .attr("axes", AttrType::kInts, Ints{}, kAxesDoc)
    .attr("steps", AttrType::kInts, Ints{}, kStepsDoc)
    .any_type()
    .picking()
    .infer([](InferContext& c) { c.out(0, sliced_shape(slice_ranges(c, c.shape(0))), c.in(0).dtype); });

PADDOCK_OP(slice_grad, "dy, like -> dx")
    .doc("`dy` where slice with the same attributes reads a tensor of `like`'s shape, 0 elsewhere.")
    .attr("starts", AttrType::kInts, kStartsDoc)
    .attr("ends", AttrType::kInts, kEndsDoc)
    .attr("axes", AttrType::kInts, Ints{}, kAxesDoc)
    .attr("steps", AttrType::kInts, Ints{}, kStepsDoc)
    .shape_only("like")
    .internal()
    .any_type()
    .infer([](InferContext& c) {
      c.expect_shape("dy", sliced_shape(slice_ranges(c, c.shape("like"))));
      c.out(0, c.shape("like"), c.in("dy").dtype);
    });

Shape padded_shape(const InferContext& c, Shape x) {
  const Ints pads = c.attr<Ints>("pads");
  const int mode = choice(c, "mode");
  if (static_cast<int>(pads.size()) != 2 * x.rank())
    c.attr_error("pads has ", pads.size(), " numbers but shape ", x, " needs ", 2 * x.rank(), ", two an axis");
  for (int a = 0; a < x.rank(); ++a) {
    for (int64_t p : {pads[2 * a], pads[2 * a + 1]}) {
      if (p < 0) c.attr_error("pads holds ", p, " for axis ", a, "; use slice to take elements away");
      if (p > 0 && mode == 1 && p >= x[a])
        c.shape_error("reflect needs more than ", p, " elements on axis ", a, " of ", x, " to mirror");
      if (p > 0 && mode == 2 && x[a] == 0) c.shape_error("axis ", a, " of ", x, " has no edge to repeat");
    }
    if (__builtin_add_overflow(x[a], pads[2 * a], &x[a]) || __builtin_add_overflow(x[a], pads[2 * a + 1], &x[a]))
      c.attr_error("pads holds ", pads[2 * a], " and ", pads[2 * a + 1], " for axis ", a,
                   "; a tensor has at most 2^40 elements");
  }
  return x;
}

PADDOCK_OP(pad, "x -> y")
    .doc("`x` with elements added before and after on each axis.")
    .attr("pads", AttrType::kInts, kPadsDoc)
    .attr("mode", AttrType::kString, std::string("constant"), kModeDoc)
    .choices({"constant", "reflect", "edge"})
    .attr("value", AttrType::kFloat, 0.0, "The new elements' value in mode 'constant'.")
    .any_type()
    .infer([](InferContext& c) { c.out(0, padded_shape(c, c.shape(0)), c.in(0).dtype); });

PADDOCK_OP(pad_grad, "dy, like -> dx")
    .doc("Gradient of pad: each element of `like`'s shape sums `dy` over the places that pad copies it to.")
    .attr("pads", AttrType::kInts, kPadsDoc)
    .attr("mode", AttrType::kString, std::string("constant"), kModeDoc)
    .choices({"constant", "reflect", "edge"})
    .shape_only("like")
    .half()
    .internal()
    .follows()
    .infer([](InferContext& c) {
      c.expect_floating("dy");
      c.expect_shape("dy", padded_shape(c, c.shape("like")));
      c.out(0, c.shape("like"), c.in("dy").dtype);
    });

PADDOCK_OP(flip, "x -> y")
    .doc("`x` with the order of elements reversed on some axes.")
    .attr("axes", AttrType::kInts, Ints{}, "Axes to reverse; none given reverses all.")
    .any_type()
    .infer([](InferContext& c) {
      c.axes_mask("axes", c.shape(0).rank());
      c.out(0, c.shape(0), c.in(0).dtype);
    });

PADDOCK_OP(roll, "x -> y")
    .doc(
        "`x` with its elements moved along axes; those that leave at one end come in at the other, as NumPy's roll.  "
        "x, y: one shape, any type; y[(i + shift) mod n] = x[i].")
    .attr("shifts", AttrType::kInts, "How far, one number an axis; a negative one moves towards the front.")
    .attr("axes", AttrType::kInts, Ints{},
          "The axes that `shifts` speaks of; none given: all elements move in row-major order by the only shift.")
    .any_type()
    .infer([](InferContext& c) {
      const Ints shifts = c.attr<Ints>("shifts"), axes = c.attr<Ints>("axes");
      const int rank = c.shape(0).rank();
      if (shifts.size() != std::max<size_t>(axes.size(), 1))
        c.attr_error("shifts has ", shifts.size(), " numbers but ", std::max<size_t>(axes.size(), 1),
                     " are needed: ", axes.empty() ? "one, where no axes are given" : "one an axis");
      if (!axes.empty()) c.axes_mask("axes", rank);
      c.out(0, c.shape(0), c.in(0).dtype);
    });

constexpr const char* kDiagonalDoc = "The diagonal to cut at: 0 the main one, positive above it, negative below.";

void infer_triangle(InferContext& c) {
  c.expect_rank_at_least("x", 2);
  c.out(0, c.shape(0), c.in(0).dtype);
}

PADDOCK_OP(triu, "x -> y")
    .doc("The upper triangle of matrices: x where column - row >= k, 0 elsewhere.  x, y: [..., M, N], any type.")
    .attr("k", AttrType::kInt, int64_t{0}, kDiagonalDoc)
    .inplace("x", "y")
    .any_type()
    .infer(&infer_triangle);

PADDOCK_OP(tril, "x -> y")
    .doc("The lower triangle of matrices: x where column - row <= k, 0 elsewhere.  x, y: [..., M, N], any type.")
    .attr("k", AttrType::kInt, int64_t{0}, kDiagonalDoc)
    .inplace("x", "y")
    .any_type()
    .infer(&infer_triangle);

Shape tiled_shape(const InferContext& c, Shape x) {
  const Ints repeats = c.attr<Ints>("repeats");
  if (static_cast<int>(repeats.size()) != x.rank())
    c.attr_error("repeats has ", repeats.size(), " numbers but shape ", x, " has ", x.rank(), " axes");
  for (int a = 0; a < x.rank(); ++a) {
    if (repeats[a] < 0) c.attr_error("repeats holds ", repeats[a], " for axis ", a, "; it must be at least 0");
    if (__builtin_mul_overflow(x[a], repeats[a], &x[a]))
      c.attr_error("repeats holds ", repeats[a], " for axis ", a, "; a tensor has at most 2^40 elements");
  }
  return x;
}

PADDOCK_OP(tile, "x -> y")
    .doc("`x` repeated whole along each axis.  x: [n, ...]; y: [n * repeats[0], ...].")
    .attr("repeats", AttrType::kInts, "How often, one number an axis.")
    .any_type()
    .infer([](InferContext& c) { c.out(0, tiled_shape(c, c.shape(0)), c.in(0).dtype); });

PADDOCK_OP(tile_grad, "dy, like -> dx")
    .doc("Gradient of tile: `dy` summed over the repeats.  dx: the shape of `like`.")
    .attr("repeats", AttrType::kInts, "How often, one number an axis.")
    .shape_only("like")
    .half()
    .internal()
    .follows()
    .infer([](InferContext& c) {
      c.expect_floating("dy");
      c.expect_shape("dy", tiled_shape(c, c.shape("like")));
      c.out(0, c.shape("like"), c.in("dy").dtype);
    });

constexpr double kMaxArange = 1e12;  // elements; far above any memory, so that the count fits an int64

PADDOCK_OP(arange, "-> y")
    .doc("start, start + step, ... before stop.  y: [ceil((stop - start) / step)].")
    .attr("start", AttrType::kFloat, "The first value.")
    .attr("stop", AttrType::kFloat, "The value not reached.")
    .attr("step", AttrType::kFloat, 1.0, "From one value to the next, not 0.")
    .attr("dtype", AttrType::kString, std::string("int64"), "Type of y: float32, float64, int32 or int64.")
    .infer([](InferContext& c) {
      const auto start = c.attr<double>("start"), stop = c.attr<double>("stop"), step = c.attr<double>("step");
      const auto dtype = c.attr<DType>("dtype");
      if (dtype != DType::kF32 && dtype != DType::kF64 && dtype != DType::kI32 && dtype != DType::kI64)
        c.dtype_error("dtype is ", dtype, " but must be float32, float64, int32 or int64; use cast");
      if (is_integral(dtype) && (std::trunc(start) != start || std::trunc(step) != step))
        c.attr_error("start ", start, " and step ", step, " must be whole numbers for ", dtype);
      const double count = std::ceil((stop - start) / step);
      if (step == 0 || !(count <= kMaxArange))
        c.attr_error("from ", start, " to ", stop, " by ", step, " makes no finite sequence");
      c.out(0, {static_cast<int64_t>(std::max(0.0, count))}, dtype);
    });

}  // namespace
}  // namespace paddock
