// chain: element-wise operators applied one after another, block by block, so that what lies between stays in cache.
#include "op/tape.h"
#include "ops/broadcast.h"

namespace paddock {
namespace {

// The type of one statement's result, by its operator's own shape rule.
TensorType statement_type(const InferContext& c, const Statement& s, const std::vector<TensorType>& results) {
  std::vector<const TensorType*> in;
  for (const TapeArg& a : s.args) {
    if (a.kind == TapeArg::kLike && !c.has("like")) c.shape_error("the tape reads like, which is absent; give it");
    in.push_back(a.kind == TapeArg::kResult ? &results[a.index] : &c.in(a.kind == TapeArg::kLike ? 0 : a.index + 1));
  }
  try {
    return infer_types(*s.op, in.data(), static_cast<int>(in.size()), s.attrs)[0];
  } catch (const Error& e) {
    fail(e.kind(), c.op().name, ": ", e.what());
  }
}

OpDef& in_place_of_every_input(OpDef& op) {
  constexpr int kMost = 16;  // inputs that y may take over; of more, the later ones are left alone
  for (int i = 0; i < kMost; ++i) op.in_place.push_back({op.input_index("xs") + i, 0});
  return op;
}

[[maybe_unused]] OpDef& op_chain = in_place_of_every_input(
    define_op("chain", "like?, xs... -> y", __FILE__)
        .doc("Element-wise operators applied one after another in one pass over memory. `tape` holds a statement for "
             "each, such as 'sigmoid(x0); sub(t0, x1); mul(t1, x2)': x<i> is input i, t<i> the result of statement i, "
             "and the last result is y. broadcast_like(x<i>, like), full_like(like) and unreduce(x<i>, like) over all "
             "axes repeat a value over the shape of `like`.  xs: shapes that broadcast to y's; y: as the operators "
             "have it.")
        .attr("tape", AttrType::kString, "The statements, separated by ';'.")
        .shape_only("like")
        .fused_from("chain")
        .internal()
        .follows()
        .infer([](InferContext& c) {
          std::vector<TensorType> results;
          const int inputs = std::max(0, c.input_count() - 1);
          for (const Statement& s : parse_tape(c.op().name, c.attr<std::string>("tape"), inputs))
            results.push_back(statement_type(c, s, results));
          const TensorType& y = results.back();
          for (int i = c.has("like") ? 0 : 1; i <= inputs; ++i)
            if (!broadcasts_to(c.shape(i), y.shape))
              c.shape_error("input ", i, " of shape ", c.shape(i), " does not broadcast to the result's shape ",
                            y.shape);
          c.out(0, y.shape, y.dtype);
        }));

}  // namespace
}  // namespace paddock
