// The operator registry: what an operator is called, takes, gives and promises, and which kernel computes it.
// One block an operator, in ops/; its CPU kernel stands under the same name in cpu/.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/tensor.h"

namespace paddock {

enum class AttrType : uint8_t { kBool, kInt, kFloat, kString, kInts, kFloats };
using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

struct AttrSpec {
  std::string name;
  AttrType type;
  AttrValue fallback;
  bool required;
  std::string doc;
  std::vector<std::string> choices;  // of a string that names one of a few ways to work; empty where it is free
};

struct ArgSpec {
  std::string name;
  bool optional = false;    // "bias?": may be absent
  bool variadic = false;    // "xs...": any number; the last input, or the last output
  bool shape_only = false;  // read for its shape and type only; the plan does not keep its bytes alive
  bool wide = false;        // float32 where the operator computes half types: weights, statistics, their gradients
  bool narrow = false;      // cast to the half type under a policy of half types, unless it is a parameter
};

// Output `output` may take the buffer of input `input` when that dies at this operator and the sizes agree.
struct InPlace {
  int input, output;
};

class InferContext;
class KernelContext;

// Data that a kernel may refuse. It does so before it writes anything, so that a plan can tell what a failed run
// leaves.
struct DataCheck {
  enum Kind : uint8_t {
    kIndices,  // in [0, limit)
    kWrapped,  // in [-limit, limit)
    kTuples,   // each number of a tuple in [-n, n) of its axis; the limit tells those axes apart
    kLabels,   // in [0, limit), or as the attributes ignore_index and from_end allow
    kOffsets,  // rise from 0 to the limit
    kFilled,   // the same, each above the one before
  } kind;
  int input;
  int64_t (*limit)(const InferContext&);
};
using InferFn = void (*)(InferContext&);
// The floating point operations of one call, by the types of inputs and results: a multiply-add counts as two, whatever
// the implementation saves.
using FlopsFn = int64_t (*)(const InferContext&);
using KernelFn = void (*)(const KernelContext&);

// What a policy of half types (autocast) makes of an operator.
enum class Precision : uint8_t {
  kFloat32,  // half inputs are cast to float32
  kHalf,     // the inputs called `narrow` are cast to the half type
  kFollows,  // half where all inputs are half, float32 where they differ
};

// Another operator, of which the first output is this one's, and what it takes: names of inputs and outputs.
struct Recompute {
  std::string op;
  std::vector<std::string> inputs;
};

// A step of some rows of a table, of which the numbers are those of this step of all rows where `unless` is 0.
struct RowsStep {
  std::string op, unless;
};

struct OpDef;
// Whether a call may fail for reasons of its own, after it has begun to write.
using FailsLateFn = bool (*)(const OpDef&, const std::vector<AttrValue>&);

struct PADDOCK_API OpDef {
  std::string name, family, doc_text, composition;
  std::vector<ArgSpec> inputs, outputs;
  std::vector<AttrSpec> attrs;
  std::vector<InPlace> in_place;
  std::vector<DataCheck> data_checks;
  bool is_view = false;             // the first output is the first input's bytes under another shape: no kernel runs
  bool is_view_when_equal = false;  // the same, in calls where the first input and the output have one type
  bool runs_blocks = false;         // its kernel runs other instructions, which a profile records in its place
  bool takes_half = false;          // computes float16 and bfloat16: in float32, rounding its results once
  bool moves = false;               // moves elements of any type, half types too, without computing
  bool picks = false;               // each result is one of its inputs' numbers, which may be uint8 or int8
  bool is_internal = false;         // called by gradients, optimizers, passes and layers, not by users
  bool is_elementwise = false;      // the chain's kernel computes it element by element
  bool spreads = false;             // repeats one value over the shape of its last input
  bool has_epilogue = false;        // adds a bias and a residual and ends in an activation on the way to memory
  bool reads_table = false;         // gives rows that earlier runs have written
  bool writes_table = false;        // changes the rows of a table
  Precision precision = Precision::kFloat32;
  std::string along_attr;     // the attribute that names its axes; it treats all others alike
  std::string derivative_op;  // the operator of one input that this one is the derivative of, times dy
  std::optional<Recompute> recompute_by;
  std::optional<RowsStep> rows_form;
  std::string gradient_op;  // the operator that computes its gradient, for one from outside of the tree
  InferFn infer_fn = nullptr;
  FlopsFn flops_fn = nullptr;
  FailsLateFn fails_late_fn = nullptr;
  KernelFn kernel = nullptr;
  KernelFn half_kernel = nullptr;  // reads and writes half types itself; where null, copies are made

  int input_index(std::string_view arg) const;
  int output_index(std::string_view arg) const;
  int attr_index(std::string_view attr) const;
  bool reads_offsets(int input) const;  // whether an input's data tells where the sequences of ragged rows end
  bool is_view_of(const TensorType& first_input, const TensorType& first_output) const {
    return is_view || (is_view_when_equal && first_input == first_output);
  }

  // The builder: an operator's block is one chained expression of these.
  OpDef& doc(std::string text);
  OpDef& attr(std::string attr_name, AttrType type, std::string text);                      // required
  OpDef& attr(std::string attr_name, AttrType type, AttrValue fallback, std::string text);  // with a default
  OpDef& infer(InferFn fn);
  OpDef& inplace(std::string_view input, std::string_view output);
  OpDef& view();
  OpDef& view_when_equal();
  OpDef& shape_only(std::string_view input);
  // Its kernel refuses data of this input outside of `limit`, which is worked out from the inputs' types.
  OpDef& checks(DataCheck::Kind kind, std::string_view input, int64_t (*limit)(const InferContext&));
  // It computes half types too (see op/half.h). Inputs called as in `wide`, "scale, bias", may be float32 beside half
  // ones, and outputs called so stay float32.
  OpDef& half(std::string_view wide = "");
  // It moves elements of any type without computing, so it follows its inputs' type.
  OpDef& any_type();
  // Facts that passes, policies and reports read. Each has a safe default: leaving it out costs speed or memory, never
  // a meaning.
  OpDef& choices(std::initializer_list<const char*> names);  // of the attribute declared last
  OpDef& picking();
  OpDef& internal();
  OpDef& elementwise();
  OpDef& spread();
  OpDef& epilogue();  // its inputs are two factors, bias and residual; attribute `activation` names what it ends in
  OpDef& float32();   // the default, said where a table has a column for it
  OpDef& follows();   // Precision::kFollows
  OpDef& narrows(std::string_view input_names);  // Precision::kHalf; "x, residual" are those that are cast
  // Making its first output again costs about one pass over memory and gives the same bits: by itself, or by another
  // operator from these inputs and outputs of this one, "x, scale, mean". Attributes go over by name.
  OpDef& recompute();
  OpDef& recompute(std::string other, std::string_view reads);
  OpDef& flops(FlopsFn fn);                    // most of a step's time is spent in operators that declare it
  OpDef& along(std::string attr_name);         // an axis, or axes of which none given means all; see `keepdims`
  OpDef& derivative_of(std::string function);  // its inputs are dy and what that one takes or gives
  OpDef& rows_step(std::string other, std::string unless = "");
  OpDef& fails_late(FailsLateFn fn);
  // The kernel, for an operator from outside of the tree.
  OpDef& cpu(KernelFn fn);
  // Its gradient is operator `name` of the same library, say "dy, x -> dx": its inputs are inputs, outputs and
  // d<output>s of this one, its attributes are this one's, its outputs are d<input>s.
  OpDef& gradient(std::string name);
  // The name of the Python composition (framework.ops.compositions) that a fused operator stands for.
  OpDef& fused_from(std::string function);
};

// Reads "x, weight, bias? -> y" into the inputs and outputs of `op`; `?` optional, `...` variadic.
PADDOCK_API void read_signature(OpDef& op, std::string_view signature);
// Names are unique.
PADDOCK_API OpDef& define_op(std::string name, std::string_view signature, std::string_view file);
PADDOCK_API const std::vector<OpDef*>& all_ops();
PADDOCK_API OpDef& find_op(std::string_view name);  // throws when there is none

struct KernelEntry {
  const char* op;
  KernelFn fn;
  bool half = false;
};
PADDOCK_API void register_kernels(const std::vector<KernelEntry>& entries);

// The floating point operations of a call; 0 where the operator declares none.
PADDOCK_API int64_t count_flops(const OpDef& op, const TensorType* const* inputs, int input_count,
                                const std::vector<AttrValue>& attrs);
// Runs the shape rule; out types in signature order (as many as the rule set, for a variadic output).
PADDOCK_API std::vector<TensorType> infer_types(const OpDef& op, const TensorType* const* inputs, int input_count,
                                                const std::vector<AttrValue>& attrs);
// Infers, allocates and computes at once: eager execution. Absent optional inputs are empty tensors.
PADDOCK_API std::vector<Tensor> run_op(const OpDef& op, const std::vector<Tensor>& inputs,
                                       const std::vector<AttrValue>& attrs);

#define PADDOCK_OP(name, signature) \
  [[maybe_unused]] static ::paddock::OpDef& op_##name = ::paddock::define_op(#name, signature, __FILE__)

}  // namespace paddock
