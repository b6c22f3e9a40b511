// What is found in data, in results of a given size: the Python functions nonzero and unique are made of these, and
// read that size from the data where they run eagerly.
#include "op/context.h"

namespace paddock {
namespace {

int64_t expect_size(const InferContext& c) {
  const auto size = c.attr<int64_t>("size");
  if (size < 0) c.attr_error("size is ", size, " but must be 0 or more");
  return size;
}

PADDOCK_OP(nonzero_sized, "x -> indices")
    .doc(
        "Where x is not 0, in row-major order; NaN is not 0. With more places than `size` the first count, with fewer "
        "the last rows hold `fill`.  x: any shape and type; indices: int64 [size, rank of x].")
    .attr("size", AttrType::kInt, "Number of rows of the result.")
    .attr("fill", AttrType::kInt, int64_t{0}, "What rows without a place hold.")
    .internal()
    .infer([](InferContext& c) { c.out(0, {expect_size(c), c.shape(0).rank()}, DType::kI64); });

PADDOCK_OP(unique_sized, "x -> values, inverse, counts")
    .doc(
        "The different elements of x in rising order, which of them each element is, and how often each occurs. All "
        "NaNs are one value, the largest; -0 and 0 are one. With more values than `size` the first count and elements "
        "beyond have inverse `size`; with fewer the last places hold `fill` and count 0.  x: any shape and type; "
        "values: [size]; inverse: int64, x's shape; counts: int64 [size].")
    .attr("size", AttrType::kInt, "Number of values of the result.")
    .attr("fill", AttrType::kFloats, std::vector<double>{},
          "One number for places without a value, rounded to the type; none given: the smallest value.")
    .internal()
    .infer([](InferContext& c) {
      const int64_t size = expect_size(c);
      if (c.attr<std::vector<double>>("fill").size() > 1) c.attr_error("fill takes one number, or none");
      c.out("values", {size}, c.in(0).dtype);
      c.out("inverse", c.shape(0), DType::kI64);
      c.out("counts", {size}, DType::kI64);
    });

}  // namespace
}  // namespace paddock
