// Operators of generation: attention over keys and values in pages, and products whose rows do not depend on the batch.
#include "op/context.h"

namespace paddock {
namespace {

int64_t queries(const InferContext& c) { return c.shape(c.op().name == "page_rows" ? "like" : "q")[0]; }
int64_t pages(const InferContext& c) { return c.shape("keys")[0] / std::max<int64_t>(1, c.attr<int64_t>("page")); }
// Lengths lie in [0, P page].
int64_t lengths_end(const InferContext& c) { return c.shape("tables")[1] * c.attr<int64_t>("page") + 1; }

void expect_like(const InferContext& c, const char* name, const char* other) {
  if (c.in(name).dtype != c.in(other).dtype)
    c.dtype_error(name, " is ", c.in(name).dtype, " but ", other, " is ", c.in(other).dtype,
                  "; cast one to the other's type");
}

// keys and values [R, W] in whole pages, of which q [T, D] has as many heads or a multiple.
void expect_pages(const InferContext& c) {
  const auto heads = c.attr<int64_t>("heads");
  for (const char* name : {"q", "keys", "values"}) {
    c.expect_rank(name, 2);
    expect_like(c, name, "q");
  }
  c.expect_floating("q");
  c.expect_shape("values", c.shape("keys"));
  const int64_t columns = c.shape("q")[1], width = c.shape("keys")[1];
  if (heads < 1 || columns % heads) c.attr_error("heads is ", heads, " but must divide D, which is ", columns);
  const int64_t size = columns / heads;
  if (size < 1 || width < 1 || width % size || heads % (width / size))
    c.shape_error("keys ", c.shape("keys"), " have ", width, " columns, but a head of q ", c.shape("q"), " has ", size,
                  ": they must hold whole heads, whose number divides ", heads);
}

// offsets [B + 1], tables [B, P], lengths [B].
void expect_sequences(const InferContext& c) {
  const auto page = c.attr<int64_t>("page"), rows = c.shape("keys")[0];
  if (page < 1 || rows % page) c.attr_error("page is ", page, " but must divide the rows of keys, which are ", rows);
  c.expect_index("offsets");
  c.expect_rank("offsets", 1);
  if (c.shape("offsets")[0] < 1) c.shape_error("offsets is empty but must be [B + 1]");
  c.expect_index("tables");
  c.expect_rank("tables", 2);
  c.expect_index("lengths");
  const int64_t sequences = c.shape("offsets")[0] - 1;
  if (c.shape("tables")[0] != sequences)
    c.shape_error("tables ", c.shape("tables"), " has ", c.shape("tables")[0], " rows but offsets cut ", sequences,
                  " sequences");
  c.expect_shape("lengths", {sequences});
}

// near_keys and near_values [2 F + 1, D / heads], both or neither.
void expect_near(const InferContext& c) {
  if (c.has("near_keys") != c.has("near_values"))
    c.attr_error("there is ", c.has("near_keys") ? "near_keys" : "near_values",
                 " without the other; give both or neither");
  if (!c.has("near_keys")) return;
  const int64_t size = c.shape("q")[1] / c.attr<int64_t>("heads");
  for (const char* name : {"near_keys", "near_values"}) {
    c.expect_rank(name, 2);
    expect_like(c, name, "q");
  }
  const Shape& near = c.shape("near_keys");
  if (near[0] % 2 == 0 || near[1] != size)
    c.shape_error("near_keys ", near, " must be [2 F + 1, ", size, "], a row for each distance, of a head's columns");
  c.expect_shape("near_values", near);
}

PADDOCK_OP(page_rows, "offsets, tables, lengths, like, keys -> rows, places")
    .doc(
        "Where the keys of new tokens belong in a cache of pages, as paged_attention reads them, and the places of the "
        "tokens in their sequences, counted from 0.\n\n"
        "offsets, tables, lengths: as of paged_attention; like: [T, ...] and keys: [R, ...], read for T and R only; "
        "rows, places: int64 [T].")
    .attr("page", AttrType::kInt, int64_t{16}, "Rows of a page.")
    .shape_only("like")
    .shape_only("keys")
    .checks(DataCheck::kOffsets, "offsets", queries)
    .checks(DataCheck::kIndices, "tables", pages)
    .checks(DataCheck::kIndices, "lengths", lengths_end)
    .infer([](InferContext& c) {
      c.expect_rank_at_least("like", 1);
      c.expect_rank_at_least("keys", 1);
      expect_sequences(c);
      c.out("rows", {c.shape("like")[0]}, DType::kI64);
      c.out("places", {c.shape("like")[0]}, DType::kI64);
    });

PADDOCK_OP(paged_attention, "q, keys, values, offsets, tables, lengths, near_keys?, near_values? -> y")
    .doc(
        "Causal attention of each sequence's new queries to its keys and values, which lie in pages anywhere in memory "
        "(Kwon et al. 2023, arXiv:2309.06180). A sequence's queries are its last rows: of n queries and a length l the "
        "i-th sees keys 0 ... l - n + i; one that sees none gives 0. Several heads of queries may share one of keys "
        "(Ainslie et al. 2023). A query's result has the same bits whatever else is in the batch, in whichever pages "
        "its keys lie, and however many queries come with it. A key at place j counts for a query at place i as its "
        "row plus row max(j - i, -F) + F of near_keys, and its value likewise (Shaw et al. 2018, arXiv:1803.02155).\n\n"
        "q, y: [T, D], columns head by head; keys, values: [R, W], R / page pages of `page` rows, W columns of whole "
        "heads; offsets: int32 or int64 [B + 1], rising from 0 to T, of the queries; tables: int32 or int64 [B, P], of "
        "each sequence its pages in order (of which only those that its length reaches are read); lengths: int32 or "
        "int64 [B], its keys, the new ones among them, at most P page; near_keys, near_values: [2 F + 1, D / heads], "
        "both or neither.")
    .attr("heads", AttrType::kInt, "Number of heads of queries; it divides D.")
    .attr("page", AttrType::kInt, int64_t{16}, "Rows of a page.")
    .attr("scale", AttrType::kFloat, 0.0, "Factor of the products q k; 0 stands for 1 / sqrt(D / heads).")
    .attr("window", AttrType::kInt, int64_t{0}, "A query sees itself and the keys before it, so many; 0 for all.")
    .checks(DataCheck::kOffsets, "offsets", queries)
    .checks(DataCheck::kIndices, "tables", pages)
    .checks(DataCheck::kIndices, "lengths", lengths_end)
    .infer([](InferContext& c) {
      if (const auto window = c.attr<int64_t>("window"); window < 0)
        c.attr_error("window is ", window, " but must be 0 or more");
      expect_pages(c);
      expect_sequences(c);
      expect_near(c);
      c.out("y", c.shape("q"), c.in("q").dtype);
    });

PADDOCK_OP(paged_weights, "q, keys, offsets, tables, lengths -> weights")
    .doc(
        "The weights that paged_attention, of one head, gives to keys, by their place in their sequence. A query's "
        "weights have the same bits whatever else is in the batch.\n\n"
        "q: [T, D]; keys: [R, D]; offsets, tables, lengths: as of paged_attention; weights: [T, P page], 0 for places "
        "that a query does not see.")
    .attr("page", AttrType::kInt, int64_t{16}, "Rows of a page.")
    .attr("scale", AttrType::kFloat, 0.0, "Factor of the products q k; 0 stands for 1 / sqrt(D).")
    .checks(DataCheck::kOffsets, "offsets", queries)
    .checks(DataCheck::kIndices, "tables", pages)
    .checks(DataCheck::kIndices, "lengths", lengths_end)
    .infer([](InferContext& c) {
      for (const char* name : {"q", "keys"}) {
        c.expect_rank(name, 2);
        expect_like(c, name, "q");
      }
      c.expect_floating("q");
      if (c.shape("q")[1] < 1 || c.shape("q")[1] != c.shape("keys")[1])
        c.shape_error("q ", c.shape("q"), " and keys ", c.shape("keys"), " must have the same columns, 1 or more");
      expect_sequences(c);
      c.out("weights", {c.shape("q")[0], c.shape("tables")[1] * c.attr<int64_t>("page")}, c.in("q").dtype);
    });

PADDOCK_OP(linear_by_rows, "x, weight, bias?, scale? -> y")
    .doc(
        "x weight^T + bias. A row of y has the same bits however many rows are beside it, and the weights are read "
        "once "
        "as they are stored: for few rows that is the speed of memory. 8-bit weights count `scale` times, a number for "
        "each group of columns of a row.\n\n"
        "x: [M, C]; weight: [K, C], as x or int8; bias: [K]; scale: [K, G] float32, of int8 weights, G divides C; y: "
        "[M, K].")
    .flops([](const InferContext& c) { return 2 * c.result(0).numel() * c.shape("x")[1]; })
    .infer([](InferContext& c) {
      c.expect_rank("x", 2);
      c.expect_rank("weight", 2);
      c.expect_floating("x");
      const Shape &x = c.shape("x"), &weight = c.shape("weight");
      if (x[1] != weight[1])
        c.shape_error("x has ", x[1], " columns (axis 1 of ", x, ") but weight has ", weight[1], " (axis 1 of ", weight,
                      ")");
      const bool bytes = c.in("weight").dtype == DType::kI8;
      if (bytes) c.expect_dtype("x", DType::kF32);
      if (!bytes) expect_like(c, "weight", "x");
      if (bytes != c.has("scale"))
        c.dtype_error("weight is ", c.in("weight").dtype, " and there is ", c.has("scale") ? "a" : "no",
                      " scale; int8 weights have one, others none");
      if (c.has("bias")) {
        expect_like(c, "bias", "x");
        c.expect_shape("bias", {weight[0]});
      }
      if (c.has("scale")) {
        c.expect_dtype("scale", DType::kF32);
        c.expect_rank("scale", 2);
        const Shape& scale = c.shape("scale");
        if (scale[0] != weight[0] || scale[1] < 1 || weight[1] % scale[1])
          c.shape_error("scale ", scale, " must be [", weight[0], ", G] for weight ", weight, ", where G divides ",
                        weight[1]);
      }
      c.out(0, {x[0], weight[0]}, c.in("x").dtype);
    });

}  // namespace
}  // namespace paddock
