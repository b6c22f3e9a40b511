// What the blocks of optimizer steps share: shapes, attributes, and how one rule becomes three operators, a step of one
// parameter, of some rows of one, and of many parameters at once.
#pragma once
#include <string>
#include <vector>

#include "op/context.h"

namespace paddock {

inline void expect_scalar(const InferContext& c, std::string_view name) {
  c.expect_rank(name, 0);
  c.expect_floating(name);
}

// `names` have the shape and type of the first, which is floating; output i has them too.
inline void infer_like(InferContext& c, const std::vector<const char*>& names) {
  const char* first = names.front();
  c.expect_floating(first);
  for (const char* name : names) {
    c.expect_shape(name, c.shape(first));
    c.expect_dtype(name, c.in(first).dtype);
  }
  for (size_t i = 0; i < c.op().outputs.size(); ++i) c.out(static_cast<int>(i), c.shape(first), c.in(first).dtype);
}

inline void check_scalars(const InferContext& c) {
  expect_scalar(c, "lr");
  if (c.has("grad_scale")) expect_scalar(c, "grad_scale");
}

inline void check_fraction(const InferContext& c, std::string_view name) {
  double value = c.attr<double>(name);
  if (!(value >= 0 && value < 1)) c.attr_error(name, " is ", value, " but must lie in [0, 1)");
}

inline void check_weight_decay(const InferContext& c) {
  double decay = c.attr<double>("weight_decay");
  if (!(decay >= 0)) c.attr_error("weight_decay is ", decay, " but must be 0 or more");
}

inline void check_eps(const InferContext& c) {
  const auto eps = c.attr<double>("eps");
  if (!(eps >= 0)) c.attr_error("eps is ", eps, " but must be 0 or more");
}

inline void check_step(const InferContext& c) {
  c.expect_rank("step", 0);
  c.expect_dtype("step", DType::kI64);
}

inline constexpr const char* kDecayDoc = "Multiple of param that is added to its gradient (L2).";
inline constexpr const char* kScaleDoc =
    "  grad_scale: [], multiplies grad, absent for 1: clipping's factor, or one over a loss scale. Where it is NaN or "
    "infinite the step is skipped, unless `skip` is off: every result is what it replaces.";

// A group of parameters: after the scalars come kIn tensors of one shape for each, of which those in `kept` have a new
// value among the outputs, in order.
inline constexpr int kMostInPlace = 128;  // parameters of a group that are updated in their own memory

inline void infer_group(InferContext& c, int first, int in, int out) {
  const int tensors = c.input_count() - first;
  if (tensors < in || tensors % in != 0)
    c.shape_error("got ", tensors, " tensors but takes ", in, " for each parameter");
  for (int i = 0; i < tensors; ++i) {
    const TensorType& like = c.in(first + i / in * in);
    if (like.dtype != DType::kF32 && like.dtype != DType::kF64)
      c.dtype_error("tensor ", i, " is ", like.dtype, " but must be float32 or float64; use cast");
    if (!(c.in(first + i) == like) || like.dtype != c.in(first).dtype)
      c.shape_error("tensor ", i, " is ", c.in(first + i).dtype, " ", c.shape(first + i),
                    " but its parameter and the first are ", like.dtype, " ", like.shape, " and ", c.in(first).dtype);
  }
  for (int i = 0; i < tensors / in; ++i)
    for (int k = 0; k < out; ++k) c.out(i * out + k, c.shape(first + i * in), c.in(first).dtype);
}

inline OpDef& group_in_place(OpDef& op, int first, int in, const std::vector<int>& kept) {
  for (int i = 0; i < kMostInPlace; ++i) {
    int output = i * static_cast<int>(kept.size());
    for (int k : kept) op.in_place.push_back({first + i * in + k, output++});
  }
  return op;
}

inline OpDef& skip_attr(OpDef& op) {
  return op.attr("skip", AttrType::kBool, true, "Change nothing where grad_scale is NaN or infinite.");
}

inline constexpr const char* kRowsDoc =
    "  param and what belongs to it: [V, D]; rows: int64 [n], each row once or -1 for none; values: [n, D], their "
    "gradient. Rows that are not listed, or whose gradient is all zeros, stand still: the step costs what it touches.";

inline void check_rows(const InferContext& c) {
  c.expect_rank("param", 2);
  c.expect_rank("rows", 1);
  c.expect_dtype("rows", DType::kI64);
  c.expect_shape("values", {c.shape("rows")[0], c.shape("param")[1]});
  c.expect_dtype("values", c.in("param").dtype);
}

inline constexpr const char* kGroupDoc =
    " of many parameters at once; their elements are shared out to the threads as if they were one tensor. ";

// An optimizer's rule. Its operators take param, what belongs to the rule, and lr; a counted one takes the step's
// number too.
struct StepRule {
  const char* name;                // "adam"
  std::vector<std::string> slots;  // the states of each parameter: "m", "v"
  std::string doc;                 // of the step of one parameter
  OpDef& (*attrs)(OpDef&);
  bool counted = false;

  std::string tail() const { return counted ? "lr, step, grad_scale?" : "lr, grad_scale?"; }
  std::string joined(const std::string& first, const std::string& ending) const {
    std::string all = first;
    for (const auto& slot : slots) all += ", " + slot + ending;
    return all;
  }
};

// The inputs before lr that have the parameter's shape.
inline std::vector<const char*> like_param(const InferContext& c) {
  std::vector<const char*> names;
  for (const ArgSpec& arg : c.op().inputs) {
    if (arg.name == "lr") break;
    if (arg.name != "rows" && arg.name != "values") names.push_back(arg.name.c_str());
  }
  return names;
}

// `name`_step on `given`, beside which stand the parameter, its slots and the scalars.
template <void (*kCheck)(const InferContext&)>
OpDef& define_step_of(const StepRule& rule, const char* ending, const char* given, const std::string& doc,
                      const char* file) {
  OpDef& op = define_op(std::string(rule.name) + ending,
                        rule.joined(std::string("param, ") + given, "") + ", " + rule.tail() + " -> " +
                            rule.joined("param_out", "_out"),
                        file)
                  .doc(doc + kScaleDoc)
                  .inplace("param", "param_out")
                  .internal()
                  .infer([](InferContext& c) {
                    kCheck(c);
                    infer_like(c, like_param(c));
                    check_scalars(c);
                    if (c.op().inputs[1].name == "rows") check_rows(c);
                  });
  for (const auto& slot : rule.slots) op.inplace(slot, slot + "_out");
  return rule.attrs(op);
}

template <void (*kCheck)(const InferContext&)>
OpDef& define_step(const StepRule& rule, const char* file) {
  OpDef& op = define_step_of<kCheck>(rule, "_step", "grad", rule.doc, file);
  return op.inplace("grad", rule.slots.empty() ? "param_out" : rule.slots[0] + "_out");
}

template <void (*kCheck)(const InferContext&)>
OpDef& define_rows_step(const StepRule& rule, const std::string& doc, const char* file) {
  return define_step_of<kCheck>(rule, "_rows_step", "rows, values", doc, file);
}

// kSlots: how many the rule has.
template <void (*kCheck)(const InferContext&), int kSlots>
OpDef& define_steps(const StepRule& rule, const char* file) {
  const std::string one = std::string(rule.name) + "_step";
  std::vector<int> kept{0};
  for (int i = 0; i < kSlots; ++i) kept.push_back(i + 2);
  OpDef& op = define_op(one + "s", rule.tail() + ", tensors... -> updated...", file)
                  .doc(one + kGroupDoc + " tensors: " + rule.joined("param, grad", "") + " of each; updated: " +
                       rule.joined("param_out", "_out") + " of each; the others: as in " + one + ".")
                  .internal()
                  .infer([](InferContext& c) {
                    kCheck(c);
                    check_scalars(c);
                    infer_group(c, c.op().input_index("tensors"), kSlots + 2, kSlots + 1);
                  });
  return group_in_place(rule.attrs(op), op.input_index("tensors"), kSlots + 2, kept);
}

}  // namespace paddock
