// Operators that change a shape or make a tensor of a given shape: reshape, full, copy and their kin.
#include "op/context.h"

namespace paddock {
namespace {

// Resolves a wanted shape: 0 copies the input's extent on that axis, one -1 takes what is left of the axes that are not
// copied: an empty batch gets the extents that any other batch gets.
Shape resolve_shape(const InferContext& c, const Shape& from, const Ints& wanted) {
  Shape to;
  int free_axis = -1;
  int64_t left = 1, given = 1;  // elements on axes that are not copied, of `from` and of `to`
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t d = wanted[i];
    if (d == 0) {
      if (static_cast<int>(i) >= from.rank())
        c.attr_error("shape ", Shape(wanted), " copies axis ", i, " (a 0) but x of shape ", from, " has no such axis");
      d = from[static_cast<int>(i)];
    } else if (d == -1) {
      if (free_axis >= 0) c.attr_error("shape has more than one -1");
      free_axis = static_cast<int>(i);
      d = 1;
    } else if (d < 0) {
      c.attr_error("shape holds ", d, "; extents are positive, 0 (copy) or -1 (the rest)");
    } else if (__builtin_mul_overflow(given, d, &given)) {
      c.attr_error("shape ", Shape(wanted), " is too large");
    }
    to.push_back(d);
  }
  for (int i = 0; i < from.rank(); ++i)
    if (i >= static_cast<int>(wanted.size()) || wanted[i] != 0) left *= from[i];
  if (free_axis >= 0) to[free_axis] = left / given;
  // Compared without the copied axes, whose product with an extent that is asked for may be too large for a number.
  const bool fits = from.numel() == 0 ? std::find(to.begin(), to.end(), 0) != to.end()
                                      : given * (free_axis >= 0 ? to[free_axis] : 1) == left;
  if (!fits || (free_axis >= 0 && left % given != 0))
    c.shape_error("x has ", from.numel(), " elements (shape ", from, ") which do not fit shape ", Shape(wanted));
  return to;
}

PADDOCK_OP(reshape, "x -> y")
    .doc("The elements of `x` in row-major order under another shape.  x: any; y: `shape`.")
    .attr("shape", AttrType::kInts,
          "Extents of y. 0 keeps x's extent on that axis, one -1 takes the rest, so that the batch may vary.")
    .view()
    .any_type()
    .picking()
    .infer([](InferContext& c) { c.out(0, resolve_shape(c, c.shape(0), c.attr<Ints>("shape")), c.in(0).dtype); });

PADDOCK_OP(reshape_like, "x, like -> y")
    .doc("The elements of `x` under the shape of `like`, which must have as many.")
    .view()
    .shape_only("like")
    .any_type()
    .infer([](InferContext& c) {
      if (c.in(0).numel() != c.in(1).numel())
        c.shape_error("x of shape ", c.shape(0), " and like of shape ", c.shape(1),
                      " differ in their number of elements");
      c.out(0, c.shape(1), c.in(0).dtype);
    });

PADDOCK_OP(flatten, "x -> y")
    .doc("Joins the axes [start, end] of `x` to one.  x: [..., d_start, ..., d_end, ...].")
    .attr("start", AttrType::kInt, int64_t{1}, "First axis to join; negative counts from the end.")
    .attr("end", AttrType::kInt, int64_t{-1}, "Last axis to join, included.")
    .view()
    .any_type()
    .infer([](InferContext& c) {
      const Shape& x = c.shape(0);
      int start = c.axis("start", x.rank()), end = c.axis("end", x.rank());
      if (start > end) c.attr_error("start ", start, " lies after end ", end);
      Shape y;
      for (int i = 0; i < start; ++i) y.push_back(x[i]);
      y.push_back(x.count(start, end + 1));
      for (int i = end + 1; i < x.rank(); ++i) y.push_back(x[i]);
      c.out(0, y, c.in(0).dtype);
    });

PADDOCK_OP(unflatten_like, "x, like -> y")
    .doc(
        "Cuts one axis of `x` into the axes [start, end] of `like`: what undoes flatten, for extents that vary.\n"
        "x: [..., d_start * ... * d_end, ...]; y: [..., d_start, ..., d_end, ...].")
    .attr("axis", AttrType::kInt, "The axis to cut; negative counts from the end.")
    .attr("start", AttrType::kInt, int64_t{0}, "First axis of `like`; negative counts from the end.")
    .attr("end", AttrType::kInt, int64_t{1}, "Last axis of `like`, included.")
    .view()
    .shape_only("like")
    .any_type()
    .infer([](InferContext& c) {
      const Shape &x = c.shape(0), &like = c.shape(1);
      const int axis = c.axis("axis", x.rank());
      const int start = c.axis("start", like.rank()), end = c.axis("end", like.rank());
      if (start > end) c.attr_error("start ", start, " lies after end ", end);
      if (x[axis] != like.count(start, end + 1))
        c.shape_error("x has extent ", x[axis], " on axis ", axis, " of ", x, " but the axes ", start, " to ", end,
                      " of like ", like, " make ", like.count(start, end + 1));
      Shape y;
      for (int i = 0; i < axis; ++i) y.push_back(x[i]);
      for (int i = start; i <= end; ++i) y.push_back(like[i]);
      for (int i = axis + 1; i < x.rank(); ++i) y.push_back(x[i]);
      c.out(0, y, c.in(0).dtype);
    });

PADDOCK_OP(expand_dims, "x -> y")
    .doc("Inserts an axis of extent 1 at `axis`.")
    .attr("axis", AttrType::kInt, "Where the new axis stands in y; -1 puts it last.")
    .view()
    .any_type()
    .infer([](InferContext& c) {
      const Shape& x = c.shape(0);
      int axis = c.axis("axis", x.rank(), /*allow_end=*/true);
      Shape y;
      for (int i = 0; i <= x.rank(); ++i) {
        if (i == axis) y.push_back(1);
        if (i < x.rank()) y.push_back(x[i]);
      }
      c.out(0, y, c.in(0).dtype);
    });

PADDOCK_OP(squeeze, "x -> y")
    .doc("Drops the axis `axis`, whose extent must be 1.")
    .attr("axis", AttrType::kInt, "The axis to drop; negative counts from the end.")
    .view()
    .any_type()
    .infer([](InferContext& c) {
      Shape y = c.shape(0);
      int axis = c.axis("axis", y.rank());
      if (y[axis] != 1)
        c.shape_error("x has extent ", y[axis], " on axis ", axis, " of ", y, "; only 1 can be dropped");
      y.erase(axis);
      c.out(0, y, c.in(0).dtype);
    });

PADDOCK_OP(full, "-> y")
    .doc("A tensor of one value.  y: `shape`.")
    .attr("shape", AttrType::kInts, "Extents of y.")
    .attr("value", AttrType::kFloat, "The value of every element, rounded to the type.")
    .attr("dtype", AttrType::kString, std::string("float32"), "Type of y.")
    .infer([](InferContext& c) {
      Shape y(c.attr<Ints>("shape"));
      for (int64_t d : y)
        if (d < 0) c.attr_error("shape ", y, " has a negative extent");
      c.out(0, y, c.attr<DType>("dtype"));
    });

PADDOCK_OP(full_like, "like -> y")
    .doc("A tensor of one value with the shape and type of `like`.")
    .attr("value", AttrType::kFloat, "The value of every element, rounded to the type.")
    .shape_only("like")
    .spread()
    .infer([](InferContext& c) { c.out(0, c.shape(0), c.in(0).dtype); });

PADDOCK_OP(extent, "x -> y")
    .doc("The extent of an axis as a value, so that a Program stays right when it varies.  x: any shape; y: int64 [].")
    .attr("axis", AttrType::kInt, "Which axis; negative counts from the end.")
    .shape_only("x")
    .infer([](InferContext& c) {
      c.axis("axis", c.shape(0).rank());
      c.out(0, Shape{}, DType::kI64);
    });

PADDOCK_OP(positions, "x -> y")
    .doc(
        "The numbers 0, 1, ... along an axis, one for each of its places, so that a Program stays right when its "
        "extent varies.  x: any shape; y: int64 [d_axis].")
    .attr("axis", AttrType::kInt, int64_t{0}, "Which axis; negative counts from the end.")
    .shape_only("x")
    .infer([](InferContext& c) {
      const Shape& x = c.shape(0);
      c.out(0, {x[c.axis("axis", x.rank())]}, DType::kI64);
    });

PADDOCK_OP(copy, "x -> y").doc("A copy of `x` in memory of its own.").any_type().infer([](InferContext& c) {
  c.out(0, c.shape(0), c.in(0).dtype);
});

}  // namespace
}  // namespace paddock
