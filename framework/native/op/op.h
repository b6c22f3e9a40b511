// The operator registry: what an operator is called, takes, gives and promises, and which kernel computes it.
// One block an operator, in ops/; its CPU kernel stands under the same name in cpu/.
#pragma once
#include <cstdint>
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
};

struct ArgSpec {
  std::string name;
  bool optional = false;    // "bias?": may be absent
  bool variadic = false;    // "xs...": any number; the last input, or the last output
  bool shape_only = false;  // read for its shape and type only; the plan does not keep its bytes alive
  bool wide = false;        // float32 where the operator computes half types: weights, statistics, their gradients
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
using KernelFn = void (*)(const KernelContext&);

enum class Device : uint8_t { kCPU, kCUDA };
inline constexpr int kDeviceCount = 2;

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
  std::string gradient_op;          // the operator that computes its gradient, for one from outside of the tree
  InferFn infer_fn = nullptr;
  KernelFn kernels[kDeviceCount] = {};
  KernelFn half_kernels[kDeviceCount] = {};  // reads and writes half types itself; where null, copies are made

  int input_index(std::string_view arg) const;
  int output_index(std::string_view arg) const;
  int attr_index(std::string_view attr) const;
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
  Device device;
  KernelFn fn;
  bool half = false;
};
PADDOCK_API void register_kernels(const std::vector<KernelEntry>& entries);

// Runs the shape rule; out types in signature order (as many as the rule set, for a variadic output).
PADDOCK_API std::vector<TensorType> infer_types(const OpDef& op, const TensorType* const* inputs, int input_count,
                                                const std::vector<AttrValue>& attrs);
// Infers, allocates and computes at once: eager execution. Absent optional inputs are empty tensors.
PADDOCK_API std::vector<Tensor> run_op(const OpDef& op, const std::vector<Tensor>& inputs,
                                       const std::vector<AttrValue>& attrs);

#define PADDOCK_OP(name, signature) \
  [[maybe_unused]] static ::paddock::OpDef& op_##name = ::paddock::define_op(#name, signature, __FILE__)

}  // namespace paddock
