// Products of matrices, with a bias and an activation on the way to memory.
#include "op/choice.h"

namespace paddock {
namespace {

// Leading axes of a and b broadcast against each other.
Shape leading_axes(const InferContext& c, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape y;
  for (int i = 0; i < rank - 2; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1)
      c.shape_error("the leading axes of a ", a, " and b ", b, " do not broadcast: ", da, " against ", db);
    y.push_back(da == 1 ? db : da);
  }
  return y;
}

// The shape of a b, after checks of everything that the products have in common.
Shape product_shape(const InferContext& c) {
  const Shape &a = c.shape("a"), &b = c.shape("b");
  c.expect_rank_at_least("a", 2);
  c.expect_rank_at_least("b", 2);
  c.expect_floating("a");
  c.expect_same_dtype();
  activation_choice(c);
  const int ta = c.attr<bool>("transpose_a"), tb = c.attr<bool>("transpose_b");
  const int64_t rows = a.dim(ta ? -1 : -2), depth = a.dim(ta ? -2 : -1), columns = b.dim(tb ? -2 : -1);
  if (b.dim(tb ? -1 : -2) != depth)
    c.shape_error("a has ", depth, " columns (axis ", ta ? -2 : -1, " of ", a, ") but b has ", b.dim(tb ? -1 : -2),
                  " rows (axis ", tb ? -1 : -2, " of ", b, ")");
  Shape y = leading_axes(c, a, b);
  y.push_back(rows);
  y.push_back(columns);
  return y;
}

void infer_product(InferContext& c) {
  const Shape y = product_shape(c);
  if (c.has("bias")) c.expect_shape("bias", {y.back()});
  if (c.has("residual")) c.expect_shape("residual", y);
  c.out(0, y, c.in("a").dtype);
}

int64_t product_flops(const InferContext& c) {
  return 2 * c.result(0).numel() * c.shape("a").dim(c.attr<bool>("transpose_a") ? -2 : -1);
}

OpDef& product_attrs(OpDef& op, AttrValue activation, const char* activation_doc) {
  return op.attr("transpose_a", AttrType::kBool, false, "Take the last two axes of a the other way round.")
      .attr("transpose_b", AttrType::kBool, false, "Take the last two axes of b the other way round.")
      .attr("activation", AttrType::kString, std::move(activation), activation_doc)
      .choices(kProductActivations)
      .attr("slope", AttrType::kFloat, 0.01, kSlopeDoc);
}

[[maybe_unused]] OpDef& op_matmul =
    product_attrs(define_op("matmul", "a, b, bias?, residual? -> y", __FILE__), std::string("none"),
                  kProductActivationDoc)
        .doc(
            "Products of matrices: y = activation(a b + bias + residual); leading axes broadcast as in NumPy. The "
            "gradient computes the product again where the activation's derivative is taken at its input.\n\n"
            "a: [..., M, D] ([..., D, M] with transpose_a); b: [..., D, K] ([..., K, D] with transpose_b); bias: [K];\n"
            "residual, y: [..., M, K].")
        .epilogue()
        .inplace("residual", "y")
        .half("a, b, bias")
        .narrows("a, b, residual")
        .flops(&product_flops)
        .infer(&infer_product);

[[maybe_unused]] OpDef& op_matmul_activation_grad =
    product_attrs(define_op("matmul_activation_grad", "a, b, at -> dz", __FILE__), std::string("gelu"),
                  "An activation of matmul.")
        .doc(
            "The gradient of an activation's input where that of its result is a product: dz = (a b) * activation'. "
            "The "
            "derivative is taken at the activation's input or from its result, as its own gradient's is.  a, b: as in "
            "matmul; at, dz: [..., M, K].")
        .fused_from("matmul_activation_grad")
        .half("a, b")
        .internal()
        .flops(&product_flops)
        .infer([](InferContext& c) {
          const Shape y = product_shape(c);
          c.expect_shape("at", y);
          c.out(0, y, c.in("a").dtype);
        });

}  // namespace
}  // namespace paddock
