// Operators that read and write by index: gather, scatter, embedding, one-hot, sort and top-k.
#include "op/context.h"

namespace paddock {
namespace {

constexpr const char* kAxisDoc = "The axis that the indices count along; negative counts from the end.";

void expect_number(const InferContext& c, std::string_view name) {
  DType t = c.in(name).dtype;
  if (t != DType::kF32 && t != DType::kF64 && t != DType::kI32 && t != DType::kI64)
    c.dtype_error(name, " is ", t, " but must be float32, float64, int32 or int64; use cast");
}

void expect_same_as_x(const InferContext& c, std::string_view name) {
  if (c.in(name).dtype != c.in("x").dtype)
    c.dtype_error(name, " is ", c.in(name).dtype, " but x is ", c.in("x").dtype, "; cast one to the other's type");
}

int64_t axis_extent(const InferContext& c) { return c.shape("x")[c.axis("axis", c.shape("x").rank())]; }
int64_t table_rows(const InferContext& c) { return c.shape("weight")[0]; }
int64_t gradient_rows(const InferContext& c) { return c.shape("like")[0]; }

// x with `axis` replaced by the axes of the indices.
Shape gathered_shape(const Shape& x, int axis, const Shape& indices) {
  Shape y;
  for (int a = 0; a < axis; ++a) y.push_back(x[a]);
  for (int64_t d : indices) y.push_back(d);
  for (int a = axis + 1; a < x.rank(); ++a) y.push_back(x[a]);
  return y;
}

// The block that writing to slices by index shares; y may take x's place.
OpDef& scatter_block(OpDef& op, const char* what) {
  return op
      .doc(cat(what,
               "\n\nx: [..., n, ...]; indices: any shape, int32 or int64, negative ones count from the end; updates: "
               "[..., *indices.shape, ...]; y: as x."))
      .attr("axis", AttrType::kInt, int64_t{0}, kAxisDoc)
      .inplace("x", "y")
      .checks(DataCheck::kWrapped, "indices", axis_extent)
      .infer([](InferContext& c) {
        if (!c.op().moves) expect_number(c, "x");
        c.expect_index("indices");
        expect_same_as_x(c, "updates");
        const int axis = c.axis("axis", c.shape(0).rank());
        c.expect_shape("updates", gathered_shape(c.shape(0), axis, c.shape(1)));
        c.out(0, c.shape(0), c.in(0).dtype);
      });
}

[[maybe_unused]] OpDef& op_scatter_add =
    scatter_block(define_op("scatter_add", "x, indices, updates -> y", __FILE__),
                  "`x` plus `updates` at the slices that `indices` name; an index met twice adds twice, in order.")
        .half()
        .follows();

[[maybe_unused]] OpDef& op_scatter =
    scatter_block(
        define_op("scatter", "x, indices, updates -> y", __FILE__),
        "`x`, of any type, with the slices that `indices` name replaced by `updates`. Of updates to one place "
        "the last in row-major order of the indices counts, and only it gets a gradient.")
        .any_type();

// The block that reading slices by index shares.
OpDef& gather_block(OpDef& op, const char* what) {
  return op.doc(cat(what, "\n\nx: [..., n, ...]; indices: any shape, int32 or int64; y: [..., *indices.shape, ...]."))
      .attr("axis", AttrType::kInt, int64_t{0}, kAxisDoc)
      .checks(DataCheck::kWrapped, "indices", axis_extent)
      .any_type()
      .infer([](InferContext& c) {
        c.expect_index("indices");
        const int axis = c.axis("axis", c.shape(0).rank());
        c.out(0, gathered_shape(c.shape(0), axis, c.shape(1)), c.in(0).dtype);
      });
}

[[maybe_unused]] OpDef& op_gather =
    gather_block(define_op("gather", "x, indices -> y", __FILE__),
                 "Whole slices of `x` by index along one axis; negative indices count from the end.");

[[maybe_unused]] OpDef& op_scatter_pick =
    gather_block(define_op("scatter_pick", "x, indices -> y", __FILE__),
                 "As gather, but 0 for every index that a later one repeats: the gradient of scatter's updates.")
        .internal();

// Tells apart the extents that tuples of indices count along.
int64_t tuple_extents(const InferContext& c) {
  uint64_t code = 14695981039346656037u;
  for (int a = 0; a < c.shape("indices").back(); ++a)
    code = (code ^ static_cast<uint64_t>(c.shape("x")[a])) * 1099511628211u;
  return static_cast<int64_t>(code);
}

// The shape of what tuples of indices name: theirs without its last axis, then what is left of x.
Shape named_shape(const InferContext& c) {
  c.expect_index("indices");
  c.expect_rank_at_least("indices", 1);
  const Shape &x = c.shape("x"), &indices = c.shape("indices");
  if (indices.back() > x.rank())
    c.shape_error("indices ", indices, " has tuples of ", indices.back(), " numbers (axis -1) but x ", x, " has ",
                  x.rank(), " axes");
  Shape y = indices;
  y.erase(y.rank() - 1);
  for (int a = static_cast<int>(indices.back()); a < x.rank(); ++a) y.push_back(x[a]);
  return y;
}

constexpr const char* kTuplesDoc =
    "x: [n_1, ..., n_K, ...]; indices: [..., K], int32 or int64, negative ones count from the end; ";

PADDOCK_OP(gather_nd, "x, indices -> y")
    .doc(cat("Slices of `x` by tuples of indices: y[i, ...] = x[indices[i, 0], ..., indices[i, K - 1], ...].\n\n",
             kTuplesDoc, "y: [*indices.shape[:-1], ...]."))
    .checks(DataCheck::kTuples, "indices", tuple_extents)
    .any_type()
    .infer([](InferContext& c) { c.out(0, named_shape(c), c.in(0).dtype); });

PADDOCK_OP(scatter_nd_add, "x, indices, updates -> y")
    .doc(cat("`x` plus `updates` at the slices that tuples of indices name; one met twice adds twice, in order.\n\n",
             kTuplesDoc, "updates: [*indices.shape[:-1], ...]; y: as x."))
    .inplace("x", "y")
    .half()
    .checks(DataCheck::kTuples, "indices", tuple_extents)
    .internal()
    .follows()
    .infer([](InferContext& c) {
      expect_number(c, "x");
      expect_same_as_x(c, "updates");
      c.expect_shape("updates", named_shape(c));
      c.out(0, c.shape(0), c.in(0).dtype);
    });

void expect_along(const InferContext& c, int axis) {
  c.expect_index("indices");
  const Shape &x = c.shape("x"), &i = c.shape("indices");
  bool fits = x.rank() == i.rank();
  for (int a = 0; fits && a < x.rank(); ++a) fits = a == axis || x[a] == i[a];
  if (!fits) c.shape_error("indices of shape ", i, " and x of shape ", x, " may differ on axis ", axis, " only");
}

PADDOCK_OP(take_along_axis, "x, indices -> y")
    .doc(
        "One element of `x` for each index, along one axis: y[.., i, ..] = x[.., indices[.., i, ..], ..].\n\n"
        "x: [..., n, ...]; indices: [..., m, ...], int32 or int64; y: as indices.")
    .attr("axis", AttrType::kInt, kAxisDoc)
    .checks(DataCheck::kWrapped, "indices", axis_extent)
    .any_type()
    .infer([](InferContext& c) {
      expect_along(c, c.axis("axis", c.shape(0).rank()));
      c.out(0, c.shape(1), c.in(0).dtype);
    });

PADDOCK_OP(put_along_axis_add, "x, indices, updates -> y")
    .doc(
        "`x` plus each update at its index along one axis; an index met twice adds twice, in order.\n\n"
        "x: [..., n, ...]; indices, updates: [..., m, ...]; y: as x.")
    .attr("axis", AttrType::kInt, kAxisDoc)
    .inplace("x", "y")
    .half()
    .checks(DataCheck::kWrapped, "indices", axis_extent)
    .follows()
    .infer([](InferContext& c) {
      expect_number(c, "x");
      expect_same_as_x(c, "updates");
      expect_along(c, c.axis("axis", c.shape(0).rank()));
      c.expect_shape("updates", c.shape("indices"));
      c.out(0, c.shape(0), c.in(0).dtype);
    });

constexpr const char* kPaddingDoc = "The id that reads zeros and gets no gradient; -1: none.";

void expect_padding_row(const InferContext& c, int64_t rows) {
  const auto padding = c.attr<int64_t>("padding_idx");
  if (padding < -1 || padding >= rows)
    c.attr_error("padding_idx is ", padding, " but must be -1 (none) or lie in [0, ", rows - 1,
                 "], a row of the table");
}

PADDOCK_OP(embedding, "weight, ids -> y")
    .doc("Rows of a table by id.  weight: [V, D]; ids: any shape, int32 or int64 in [0, V); y: [*ids.shape, D].")
    .attr("padding_idx", AttrType::kInt, int64_t{-1}, kPaddingDoc)
    .half()
    .checks(DataCheck::kIndices, "ids", table_rows)
    .follows()
    .infer([](InferContext& c) {
      c.expect_rank("weight", 2);
      c.expect_floating("weight");
      expect_padding_row(c, c.shape("weight")[0]);
      c.expect_index("ids");
      Shape y = c.shape("ids");
      y.push_back(c.shape("weight")[1]);
      c.out(0, y, c.in("weight").dtype);
    });

void infer_embedding_grad(InferContext& c) {
  c.expect_rank("like", 2);
  expect_padding_row(c, c.shape("like")[0]);
  c.expect_floating("dy");
  c.expect_index("ids");
  Shape dy = c.shape("ids");
  dy.push_back(c.shape("like")[1]);
  c.expect_shape("dy", dy);
}

PADDOCK_OP(embedding_grad, "dy, ids, like -> dweight")
    .doc(
        "Gradient of embedding: row v sums `dy` where ids is v, in order.  dy: [*ids.shape, D]; like, dweight: [V, D].")
    .attr("padding_idx", AttrType::kInt, int64_t{-1}, kPaddingDoc)
    .shape_only("like")
    .half()
    .checks(DataCheck::kIndices, "ids", gradient_rows)
    .internal()
    .follows()
    .infer([](InferContext& c) {
      infer_embedding_grad(c);
      c.out(0, c.shape("like"), c.in("dy").dtype);
    });

PADDOCK_OP(embedding_grad_rows, "dy, ids, like -> rows, values")
    .doc(
        "The rows of embedding_grad that are not zero: where an id stands for the first time, its row number and the "
        "sum of its `dy`, in order; at the other places -1 and zeros.\n\n"
        "dy: [*ids.shape, D]; like: [V, D]; rows: int64 [n], n the number of ids; values: [n, D].")
    .attr("padding_idx", AttrType::kInt, int64_t{-1}, kPaddingDoc)
    .shape_only("like")
    .half()
    .checks(DataCheck::kIndices, "ids", gradient_rows)
    .internal()
    .follows()
    .infer([](InferContext& c) {
      infer_embedding_grad(c);
      const int64_t n = c.shape("ids").numel();
      c.out("rows", {n}, DType::kI64);
      c.out("values", {n, c.shape("like")[1]}, c.in("dy").dtype);
    });

PADDOCK_OP(one_hot, "ids -> y")
    .doc("1 at each id's place, 0 elsewhere.  ids: any shape, int32 or int64 in [0, depth); y: [*ids.shape, depth].")
    .attr("depth", AttrType::kInt, "Number of places.")
    .attr("dtype", AttrType::kString, std::string("float32"), "Type of y.")
    .checks(DataCheck::kIndices, "ids", [](const InferContext& c) { return c.attr<int64_t>("depth"); })
    .infer([](InferContext& c) {
      c.expect_index("ids");
      const auto depth = c.attr<int64_t>("depth");
      if (depth < 0) c.attr_error("depth is ", depth, " but must be at least 0");
      Shape y = c.shape(0);
      y.push_back(depth);
      c.out(0, y, c.attr<DType>("dtype"));
    });

PADDOCK_OP(topk, "x -> values, indices")
    .doc(
        "The k largest (or smallest) elements along an axis, best first, and where they stand, int64.\n\n"
        "Of equal elements the one of the lower index comes first; NaN counts as larger than any number.\n"
        "x: [..., n, ...]; values, indices: [..., k, ...].")
    .attr("k", AttrType::kInt, "How many, at most the axis' extent.")
    .attr("axis", AttrType::kInt, int64_t{-1}, "The axis to look along; negative counts from the end.")
    .attr("largest", AttrType::kBool, true, "Take the largest; otherwise the smallest.")
    .any_type()
    .infer([](InferContext& c) {
      Shape y = c.shape(0);
      const int axis = c.axis("axis", y.rank());
      const auto k = c.attr<int64_t>("k");
      if (k < 0 || k > y[axis]) c.attr_error("k is ", k, " but must lie in [0, ", y[axis], "], axis ", axis, " of ", y);
      y[axis] = k;
      c.out(0, y, c.in(0).dtype);
      c.out(1, y, DType::kI64);
    });

PADDOCK_OP(sort, "x -> values, indices")
    .doc(
        "Elements along an axis in order, and where they stood, int64.  Equal ones keep their order; NaN counts as "
        "larger than any number.\n\nvalues, indices: as x.")
    .attr("axis", AttrType::kInt, int64_t{-1}, "The axis to sort along; negative counts from the end.")
    .attr("descending", AttrType::kBool, false, "Largest first.")
    .any_type()
    .infer([](InferContext& c) {
      c.axis("axis", c.shape(0).rank());
      c.out(0, c.shape(0), c.in(0).dtype);
      c.out(1, c.shape(0), DType::kI64);
    });

}  // namespace
}  // namespace paddock
