// Element-wise operators: the table's, and the few with a signature of their own (where, clip, lerp, cast, broadcasts).
#include <span>

#include "ops/broadcast.h"

namespace paddock {
namespace {

enum Types { kFloats, kNumbers, kComparable, kBool };

bool allows(Types types, DType t) {
  bool is_float = t == DType::kF32 || t == DType::kF64;
  if (types == kBool) return t == DType::kBool;
  if (is_float || types == kFloats) return is_float;
  if (types == kNumbers) return t == DType::kI32 || t == DType::kI64;
  return t != DType::kF16 && t != DType::kBF16;
}

void expect_types(const InferContext& c, int input, Types types) {
  constexpr const char* names[] = {"float32 or float64", "float32, float64, int32 or int64",
                                   "float32, float64, an integer type or bool", "bool"};
  if (!allows(types, c.in(input).dtype))
    c.dtype_error(c.op().inputs[input].name, " is ", c.in(input).dtype, " but must be ", names[types],
                  types == kBool ? "; compare it first (x != 0)" : "; use cast");
}

template <Types kTypes>
void infer_unary(InferContext& c) {
  expect_types(c, 0, kTypes);
  c.out(0, c.shape(0), c.in(0).dtype);
}

template <Types kTypes>
void infer_test(InferContext& c) {
  expect_types(c, 0, kTypes);
  c.out(0, c.shape(0), DType::kBool);
}

template <Types kTypes>
void infer_binary(InferContext& c) {
  c.expect_same_dtype();
  expect_types(c, 0, kTypes);
  c.out(0, broadcast_inputs(c, 0, 1), c.in(0).dtype);
}

template <Types kTypes>
void infer_compare(InferContext& c) {
  c.expect_same_dtype();
  expect_types(c, 0, kTypes);
  c.out(0, broadcast_inputs(c, 0, 1), DType::kBool);
}

void infer_grad(InferContext& c) {
  c.expect_same_dtype();
  expect_types(c, 0, kFloats);
  c.expect_shape("dy", c.shape(1));
  c.out(0, c.shape(0), c.in(0).dtype);
}

// Operators on numbers compute half types too; those on truth values have none.
OpDef& with_half(Types types, OpDef& op) { return types == kBool ? op : op.half(); }

constexpr const char* kUnaryShapes = "  x, y: any shape, the same.";
constexpr const char* kBinaryShapes = "  a, b: shapes that broadcast (NumPy's rules); y: their common shape.";

#define ELEMENTWISE(name, signature, types) \
  [[maybe_unused]] static OpDef& op_##name = with_half(types, define_op(#name, signature, __FILE__)).elementwise()
#define UNARY(name, types, facts, text, ...) \
  ELEMENTWISE(name, "x -> y", types)         \
      .doc(std::string(text) + kUnaryShapes) \
      .inplace("x", "y")                     \
      .infer(&infer_unary<types>) facts;
#define UNARY_ATTR(name, attr_name, fallback, attr_text, facts, text, ...)          \
  ELEMENTWISE(name, "x -> y", kFloats)                                              \
      .doc(std::string(text) + kUnaryShapes)                                        \
      .attr(#attr_name, AttrType::kFloat, static_cast<double>(fallback), attr_text) \
      .inplace("x", "y")                                                            \
      .infer(&infer_unary<kFloats>) facts;
#define TEST(name, types, text, ...) \
  ELEMENTWISE(name, "x -> y", types).doc(std::string(text) + kUnaryShapes).follows().infer(&infer_test<types>);
#define BINARY(name, types, facts, text, ...) \
  ELEMENTWISE(name, "a, b -> y", types)       \
      .doc(std::string(text) + kBinaryShapes) \
      .inplace("a", "y")                      \
      .inplace("b", "y")                      \
      .infer(&infer_binary<types>) facts;
#define COMPARE(name, types, text, ...) \
  ELEMENTWISE(name, "a, b -> y", types).doc(std::string(text) + kBinaryShapes).follows().infer(&infer_compare<types>);
#define GRAD(name, function, second, text, ...)                     \
  ELEMENTWISE(name, "dy, " #second " -> dx", kFloats)               \
      .doc(std::string(text) + "  dy, " #second ", dx: one shape.") \
      .inplace("dy", "dx")                                          \
      .inplace(#second, "dx")                                       \
      .derivative_of(#function)                                     \
      .internal()                                                   \
      .follows()                                                    \
      .infer(&infer_grad);
#include "ops/elementwise_table.inc"
#undef UNARY
#undef UNARY_ATTR
#undef TEST
#undef BINARY
#undef COMPARE
#undef GRAD
#undef ELEMENTWISE

PADDOCK_OP(leaky_relu_grad, "dy, x -> dx")
    .doc(
        "Derivative of leaky_relu: dy where x is above 0, else slope * dy. The output y serves as x if slope > 0.  "
        "dy, x, dx: one shape.")
    .attr("slope", AttrType::kFloat, 0.01, "Factor of negative x.")
    .inplace("dy", "dx")
    .inplace("x", "dx")
    .half()
    .internal()
    .follows()
    .elementwise()
    .derivative_of("leaky_relu")
    .infer(&infer_grad);

PADDOCK_OP(prelu, "x, slope -> y")
    .doc(
        "x where x is above 0, slope * x elsewhere, with a learned slope (He et al. 2015, arXiv:1502.01852); the "
        "gradient at 0 is the slope's side.  x, slope: shapes that broadcast, such as [..., C] and [C]; y: their "
        "common shape.")
    .inplace("x", "y")
    .half("slope")
    .follows()
    .elementwise()
    .infer(&infer_binary<kFloats>);

PADDOCK_OP(gelu, "x -> y")
    .doc("x * P(X <= x) for a standard normal X: Hendrycks and Gimpel 2016.  x, y: any shape, the same.")
    .attr("approximate", AttrType::kBool, false, "Use 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) in its place.")
    .inplace("x", "y")
    .half()
    .follows()
    .elementwise()
    .recompute()
    .infer(&infer_unary<kFloats>);

PADDOCK_OP(gelu_grad, "dy, x -> dx")
    .doc("Derivative of gelu.  dy, x, dx: one shape.")
    .attr("approximate", AttrType::kBool, false, "As in gelu.")
    .inplace("dy", "dx")
    .inplace("x", "dx")
    .half()
    .internal()
    .follows()
    .elementwise()
    .derivative_of("gelu")
    .infer(&infer_grad);

PADDOCK_OP(where, "cond, a, b -> y")
    .doc("a where cond is true, b elsewhere.  cond: bool; a, b: any type, the same; all three broadcast.")
    .inplace("a", "y")
    .inplace("b", "y")
    .half()
    .follows()
    .elementwise()
    .infer([](InferContext& c) {
      c.expect_dtype("cond", DType::kBool);
      if (c.in(1).dtype != c.in(2).dtype)
        c.dtype_error("b is ", c.in(2).dtype, " but a is ", c.in(1).dtype, "; cast one to the other's type");
      c.out(0, broadcast_inputs(c, 0, 2), c.in(1).dtype);
    });

PADDOCK_OP(clip, "x -> y")
    .doc(
        "x limited to [min, max]; NaN stays NaN. The gradient is 1 inside and on the limits, 0 outside.  x, y: one "
        "shape.")
    .attr("min", AttrType::kFloat, "Lower limit; whole-number types round it down.")
    .attr("max", AttrType::kFloat, "Upper limit; whole-number types round it down.")
    .inplace("x", "y")
    .half()
    .follows()
    .elementwise()
    .infer([](InferContext& c) {
      expect_types(c, 0, kNumbers);
      double low = c.attr<double>("min"), high = c.attr<double>("max");
      if (!(low <= high)) c.attr_error("min is ", low, " but must not exceed max, ", high);
      c.out(0, c.shape(0), c.in(0).dtype);
    });

PADDOCK_OP(lerp, "a, b, weight -> y")
    .doc("a + weight * (b - a): a at weight 0, b at weight 1.  a, b, weight: shapes that broadcast.")
    .inplace("a", "y")
    .inplace("b", "y")
    .inplace("weight", "y")
    .half()
    .follows()
    .elementwise()
    .infer([](InferContext& c) {
      c.expect_same_dtype();
      expect_types(c, 0, kFloats);
      c.out(0, broadcast_inputs(c, 0, 2), c.in(0).dtype);
    });

PADDOCK_OP(cast, "x -> y")
    .doc(
        "x in another type. Float to whole number drops the fraction, limits to the type's range and turns NaN into 0; "
        "whole numbers wrap around; anything but 0 is true.  x, y: any shape, the same.")
    .attr("dtype", AttrType::kString, "Type of y.")
    .attr("elidable", AttrType::kBool, false,
          "A precision policy put it in: a pass may leave out its rounding. One that somebody wrote always rounds.")
    .any_type()
    .elementwise()
    .infer([](InferContext& c) { c.out(0, c.shape(0), c.attr<DType>("dtype")); });

PADDOCK_OP(broadcast_to, "x -> y")
    .doc("x repeated along new axes and axes of extent 1.  x: broadcasts to `shape`; y: `shape`.")
    .attr("shape", AttrType::kInts, "Shape of y.")
    .view_when_equal()
    .any_type()
    .infer([](InferContext& c) {
      Shape y(c.attr<Ints>("shape"));
      if (!broadcasts_to(c.shape(0), y)) c.shape_error("x of shape ", c.shape(0), " does not broadcast to ", y);
      c.out(0, y, c.in(0).dtype);
    });

PADDOCK_OP(broadcast_like, "x, like -> y")
    .doc("x repeated to the shape of `like`.  like: any type; y: like's shape, x's type.")
    .shape_only("like")
    .inplace("x", "y")
    .view_when_equal()
    .any_type()
    .spread()
    .infer([](InferContext& c) {
      if (!broadcasts_to(c.shape(0), c.shape(1)))
        c.shape_error("x of shape ", c.shape(0), " does not broadcast to like's shape ", c.shape(1));
      c.out(0, c.shape(1), c.in(0).dtype);
    });

PADDOCK_OP(sum_to, "x, like -> y")
    .doc(
        "Sums x over the axes along which `like` broadcasts to it: the gradient of broadcasting.  like: any type; y: "
        "like's shape, x's type.")
    .shape_only("like")
    .inplace("x", "y")
    .view_when_equal()
    .half()
    .internal()
    .infer([](InferContext& c) {
      expect_types(c, 0, kNumbers);
      if (!broadcasts_to(c.shape(1), c.shape(0)))
        c.shape_error("like of shape ", c.shape(1), " does not broadcast to x's shape ", c.shape(0));
      c.out(0, c.shape(1), c.in(0).dtype);
    });

}  // namespace
}  // namespace paddock
