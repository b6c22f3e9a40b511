// Random numbers: functions of a key alone, so that a result can be recomputed instead of stored.
// A key is int64[2] (seed, call number); rng_next hands out one per call from the generator's state.
#include <cmath>

#include "op/context.h"

namespace paddock {
namespace {

void expect_key(const InferContext& c, std::string_view name) {
  c.expect_dtype(name, DType::kI64);
  c.expect_shape(name, {2});
}

void infer_random(InferContext& c) {
  expect_key(c, "key");
  DType dtype = c.attr<DType>("dtype");
  if (dtype != DType::kF32 && dtype != DType::kF64)
    c.dtype_error("dtype is ", dtype, " but must be float32 or float64; use cast");
  Shape y(c.attr<Ints>("shape"));
  for (int64_t d : y)
    if (d < 0) c.attr_error("shape ", y, " has a negative extent");
  c.out(0, y, dtype);
}

PADDOCK_OP(rng_next, "state -> key, next")
    .doc("Draws a key for one random operator: key = state, next = (seed, call number + 1).  all: int64[2].")
    .internal()
    .infer([](InferContext& c) {
      expect_key(c, "state");
      c.out("key", {2}, DType::kI64);
      c.out("next", {2}, DType::kI64);
    });

PADDOCK_OP(random_uniform, "key -> y")
    .doc(
        "Independent numbers, uniform in [low, high), from Philox4x32-10 (Salmon et al. 2011).  key: int64[2]; y: "
        "`shape`.")
    .attr("shape", AttrType::kInts, "Extents of y.")
    .attr("low", AttrType::kFloat, 0.0, "Least value.")
    .attr("high", AttrType::kFloat, 1.0, "Bound that is not reached.")
    .attr("dtype", AttrType::kString, std::string("float32"), "float32 (24 random bits) or float64 (53).")
    .infer([](InferContext& c) {
      double low = c.attr<double>("low"), high = c.attr<double>("high");
      if (!(low <= high) || std::isinf(high - low)) c.attr_error("low is ", low, " but high is ", high);
      infer_random(c);
    });

PADDOCK_OP(random_uniform_like, "key, like -> y")
    .doc("As random_uniform, from 0 to 1 in float32, with the shape of `like`, which may vary.  key: int64[2].")
    .shape_only("like")
    .infer([](InferContext& c) {
      expect_key(c, "key");
      c.out(0, c.shape("like"), DType::kF32);
    });

PADDOCK_OP(random_normal, "key -> y")
    .doc("Independent normal numbers, by Box and Muller's transform of uniform ones.  key: int64[2]; y: `shape`.")
    .attr("shape", AttrType::kInts, "Extents of y.")
    .attr("mean", AttrType::kFloat, 0.0, "Mean.")
    .attr("std", AttrType::kFloat, 1.0, "Standard deviation, 0 or more.")
    .attr("dtype", AttrType::kString, std::string("float32"), "float32 or float64.")
    .infer([](InferContext& c) {
      if (!(c.attr<double>("std") >= 0)) c.attr_error("std is ", c.attr<double>("std"), " but must be 0 or more");
      infer_random(c);
    });

PADDOCK_OP(random_integers, "key -> y")
    .doc(
        "Independent whole numbers, uniform in [low, high) but for less than (high - low) / 2^64: what other libraries "
        "call randint. Element i takes the words 2 i and 2 i + 1 of the stream as one number of 64 bits and the upper "
        "half of its product with high - low.  key: int64[2]; y: `shape`.")
    .attr("shape", AttrType::kInts, "Extents of y.")
    .attr("low", AttrType::kInt, "Least value.")
    .attr("high", AttrType::kInt, "Bound that is not reached, above low.")
    .attr("dtype", AttrType::kString, std::string("int64"), "int32 or int64.")
    .infer([](InferContext& c) {
      expect_key(c, "key");
      const DType dtype = c.attr<DType>("dtype");
      if (dtype != DType::kI32 && dtype != DType::kI64)
        c.dtype_error("dtype is ", dtype, " but must be int32 or int64; use cast");
      const auto low = c.attr<int64_t>("low"), high = c.attr<int64_t>("high");
      if (low >= high) c.attr_error("low is ", low, " but must lie below high, which is ", high);
      if (dtype == DType::kI32 && (low < INT32_MIN || high - 1 > INT32_MAX))
        c.attr_error("low ", low, " and high ", high, " do not fit int32; take int64");
      Shape y(c.attr<Ints>("shape"));
      for (int64_t d : y)
        if (d < 0) c.attr_error("shape ", y, " has a negative extent");
      c.out(0, y, dtype);
    });

PADDOCK_OP(random_permutation, "key, like? -> y")
    .doc(
        "The numbers 0 to n - 1 in random order: those of n random numbers of 64 bits, from the words of the stream "
        "two "
        "by two, in rising order.  key: int64[2]; like: [n, ...], which may vary; y: int64 [n].")
    .attr("n", AttrType::kInt, int64_t{-1}, "How many; those of `like`'s first axis where it is left out.")
    .shape_only("like")
    .infer([](InferContext& c) {
      expect_key(c, "key");
      const auto n = c.attr<int64_t>("n");
      if (c.has("like") == (n != -1)) c.attr_error("takes either n or like, one of them");
      if (c.has("like")) c.expect_rank_at_least("like", 1);
      if (!c.has("like") && n < 0) c.attr_error("n is ", n, " but must be 0 or more");
      c.out(0, {c.has("like") ? c.shape("like")[0] : n}, DType::kI64);
    });

PADDOCK_OP(dropout, "x, key -> y")
    .doc(
        "Each element is 0 with probability p, else x / (1 - p). The same key gives the same choice, so the gradient "
        "is dropout(dy, key).  x, y: any; key: int64[2].")
    .attr("p", AttrType::kFloat, "Probability of 0, in [0, 1).")
    .inplace("x", "y")
    .half()
    .follows()
    .infer([](InferContext& c) {
      c.expect_floating("x");
      expect_key(c, "key");
      double p = c.attr<double>("p");
      if (!(p >= 0 && p < 1)) c.attr_error("p is ", p, " but must lie in [0, 1)");
      c.out(0, c.shape("x"), c.in("x").dtype);
    });

}  // namespace
}  // namespace paddock
