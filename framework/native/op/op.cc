// The registry and the builder of operator blocks.
#include "op/op.h"

#include <algorithm>
#include <map>
#include <memory>

#include "op/context.h"
#include "op/eager.h"
#include "op/half.h"

namespace paddock {
namespace {

struct Registry {
  std::vector<std::unique_ptr<OpDef>> owned;
  std::vector<OpDef*> list;
  std::map<std::string, OpDef*, std::less<>> by_name;
};

Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::vector<ArgSpec> parse_args(std::string_view text) {
  std::vector<ArgSpec> args;
  while (!text.empty()) {
    size_t comma = text.find(',');
    std::string_view word = trim(text.substr(0, comma));
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    if (word.empty()) continue;
    ArgSpec arg;
    if (word.ends_with("...")) {
      arg.variadic = true;
      word.remove_suffix(3);
    } else if (word.ends_with('?')) {
      arg.optional = true;
      word.remove_suffix(1);
    }
    arg.name = word;
    args.push_back(std::move(arg));
  }
  return args;
}

// "…/ops/conv.cc" -> "conv"
std::string stem(std::string_view file) {
  file = file.substr(file.find_last_of('/') + 1);
  return std::string(file.substr(0, file.find('.')));
}

int index_of(const auto& specs, std::string_view name) {
  for (size_t i = 0; i < specs.size(); ++i)
    if (specs[i].name == name) return static_cast<int>(i);
  return -1;
}

int require(int index, const OpDef& op, std::string_view name) {
  if (index < 0) fail(ErrorKind::kInternal, op.name, ": its signature has no '", name, "'");
  return index;
}

}  // namespace

int OpDef::input_index(std::string_view arg) const { return require(index_of(inputs, arg), *this, arg); }
int OpDef::output_index(std::string_view arg) const { return require(index_of(outputs, arg), *this, arg); }
int OpDef::attr_index(std::string_view attr) const { return index_of(attrs, attr); }

OpDef& OpDef::doc(std::string text) {
  doc_text = std::move(text);
  return *this;
}
OpDef& OpDef::attr(std::string attr_name, AttrType type, std::string text) {
  attrs.push_back({std::move(attr_name), type, {}, true, std::move(text), {}});
  return *this;
}
OpDef& OpDef::attr(std::string attr_name, AttrType type, AttrValue fallback, std::string text) {
  attrs.push_back({std::move(attr_name), type, std::move(fallback), false, std::move(text), {}});
  return *this;
}
OpDef& OpDef::infer(InferFn fn) {
  infer_fn = fn;
  return *this;
}
OpDef& OpDef::inplace(std::string_view input, std::string_view output) {
  in_place.push_back({input_index(input), output_index(output)});
  return *this;
}
OpDef& OpDef::view() {
  is_view = true;
  return *this;
}
OpDef& OpDef::view_when_equal() {
  is_view_when_equal = true;
  return *this;
}
OpDef& OpDef::shape_only(std::string_view input) {
  inputs[input_index(input)].shape_only = true;
  return *this;
}
OpDef& OpDef::checks(DataCheck::Kind kind, std::string_view input, int64_t (*limit)(const InferContext&)) {
  data_checks.push_back({kind, input_index(input), limit});
  return *this;
}
OpDef& OpDef::half(std::string_view wide) {
  takes_half = true;
  for (const ArgSpec& named : parse_args(wide)) {
    for (auto* args : {&inputs, &outputs})
      for (ArgSpec& arg : *args) arg.wide = arg.wide || arg.name == named.name;
    if (index_of(inputs, named.name) < 0) output_index(named.name);  // a name of neither is an error
  }
  return *this;
}
bool OpDef::reads_offsets(int input) const {
  return std::any_of(data_checks.begin(), data_checks.end(), [input](const DataCheck& check) {
    return check.input == input && (check.kind == DataCheck::kOffsets || check.kind == DataCheck::kFilled);
  });
}
OpDef& OpDef::any_type() {
  moves = true;
  return follows();
}
OpDef& OpDef::picking() {
  picks = true;
  return *this;
}
OpDef& OpDef::choices(std::initializer_list<const char*> names) {
  if (attrs.empty()) fail(ErrorKind::kInternal, name, ": choices() stands before any attribute");
  attrs.back().choices.assign(names.begin(), names.end());
  return *this;
}
OpDef& OpDef::internal() {
  is_internal = true;
  return *this;
}
OpDef& OpDef::elementwise() {
  is_elementwise = true;
  return *this;
}
OpDef& OpDef::spread() {
  spreads = true;
  return *this;
}
OpDef& OpDef::epilogue() {
  for (const char* name : {"bias", "residual"}) input_index(name);
  require(attr_index("activation"), *this, "activation");
  has_epilogue = true;
  return *this;
}
OpDef& OpDef::float32() {
  precision = Precision::kFloat32;
  return *this;
}
OpDef& OpDef::follows() {
  precision = Precision::kFollows;
  return *this;
}
OpDef& OpDef::narrows(std::string_view input_names) {
  precision = Precision::kHalf;
  for (const ArgSpec& named : parse_args(input_names)) inputs[input_index(named.name)].narrow = true;
  return *this;
}
OpDef& OpDef::recompute() {
  recompute_by = Recompute{name, {}};
  for (const ArgSpec& arg : inputs) recompute_by->inputs.push_back(arg.name);
  return *this;
}
OpDef& OpDef::recompute(std::string other, std::string_view reads) {
  recompute_by = Recompute{std::move(other), {}};
  for (const ArgSpec& arg : parse_args(reads)) {
    if (index_of(inputs, arg.name) < 0) output_index(arg.name);  // a name of neither is an error
    recompute_by->inputs.push_back(arg.name);
  }
  return *this;
}
OpDef& OpDef::flops(FlopsFn fn) {
  flops_fn = fn;
  return *this;
}
OpDef& OpDef::along(std::string attr_name) {
  along_attr = std::move(attr_name);
  return *this;
}
OpDef& OpDef::derivative_of(std::string function) {
  derivative_op = std::move(function);
  return *this;
}
OpDef& OpDef::rows_step(std::string other, std::string unless) {
  rows_form = RowsStep{std::move(other), std::move(unless)};
  return *this;
}
OpDef& OpDef::cpu(KernelFn fn) {
  kernel = fn;
  return *this;
}
OpDef& OpDef::fails_late(FailsLateFn fn) {
  fails_late_fn = fn;
  return *this;
}
OpDef& OpDef::gradient(std::string op_name) {
  gradient_op = std::move(op_name);
  return *this;
}
OpDef& OpDef::fused_from(std::string function) {
  composition = std::move(function);
  return *this;
}

void read_signature(OpDef& op, std::string_view signature) {
  const size_t arrow = signature.find("->");
  if (arrow == std::string_view::npos)
    fail(ErrorKind::kInternal, op.name, ": its signature '", signature, "' has no '->', as in \"x -> y\"");
  op.inputs = parse_args(signature.substr(0, arrow));
  op.outputs = parse_args(signature.substr(arrow + 2));
}

OpDef& define_op(std::string name, std::string_view signature, std::string_view file) {
  Registry& r = registry();
  if (r.by_name.contains(name)) fail(ErrorKind::kInternal, name, ": defined twice");
  auto op = std::make_unique<OpDef>();
  op->family = stem(file);
  op->name = std::move(name);
  read_signature(*op, signature);
  r.by_name[op->name] = op.get();
  r.list.push_back(op.get());
  r.owned.push_back(std::move(op));
  return *r.list.back();
}

const std::vector<OpDef*>& all_ops() { return registry().list; }

OpDef& find_op(std::string_view name) {
  auto it = registry().by_name.find(name);
  if (it == registry().by_name.end()) fail(ErrorKind::kNotSupported, name, ": there is no such operator");
  return *it->second;
}

void register_kernels(const std::vector<KernelEntry>& entries) {
  for (const auto& e : entries) {
    OpDef& op = find_op(e.op);
    (e.half ? op.half_kernel : op.kernel) = e.fn;
  }
}

// Rules read inputs that the signature requires without asking whether they are there.
static void expect_required_inputs(const OpDef& op, const TensorType* const* inputs, int input_count) {
  const int named = static_cast<int>(op.inputs.size());
  for (int i = 0; i < std::max(input_count, named); ++i) {
    const ArgSpec& arg = op.inputs[std::min(i, named - 1)];
    if (arg.optional || (i < input_count && inputs[i]) || (i >= input_count && arg.variadic)) continue;
    fail(ErrorKind::kAttribute, op.name, ": input '", arg.name,
         "' is missing; only inputs marked optional may be None");
  }
}

namespace {

// More elements than any machine holds: a damaged or hostile shape, whose number of bytes would overflow further on.
constexpr int64_t kMostElements = int64_t{1} << 40;

void expect_possible(const OpDef& op, const TensorType& type) {
  int64_t elements = 1;
  for (int64_t d : type.shape) {
    if (d < 0) fail(ErrorKind::kShape, op.name, ": its output would have shape ", type.shape);
    if (d > kMostElements || (d > 0 && elements > kMostElements / d))
      fail(ErrorKind::kShape, op.name, ": a result of shape ", type.shape, " is impossible; a tensor has at most 2^40 ",
           "elements");
    elements *= std::max<int64_t>(d, 1);
  }
}

}  // namespace

std::vector<TensorType> infer_types(const OpDef& op, const TensorType* const* inputs, int input_count,
                                    const std::vector<AttrValue>& attrs) {
  expect_required_inputs(op, inputs, input_count);
  std::vector<TensorType> outputs;
  outputs.reserve(op.outputs.size());
  const HalfTypes half(op, inputs, input_count);
  InferContext context(op, half.inputs(), input_count, attrs, outputs);
  op.infer_fn(context);
  // A rule from outside of the tree may be wrong; what runs the operator counts on its signature.
  const size_t named = op.outputs.size();
  const bool variadic = named && op.outputs.back().variadic;
  if (variadic ? outputs.size() + 1 < named : outputs.size() != named)
    fail(ErrorKind::kInternal, op.name, ": its shape rule gave ", outputs.size(), " outputs; its signature has ",
         named);
  half.narrow(outputs);
  for (const auto& type : outputs) expect_possible(op, type);
  return outputs;
}

int64_t count_flops(const OpDef& op, const TensorType* const* inputs, int input_count,
                    const std::vector<AttrValue>& attrs) {
  if (!op.flops_fn) return 0;
  std::vector<TensorType> outputs = infer_types(op, inputs, input_count, attrs);
  return op.flops_fn(InferContext(op, inputs, input_count, attrs, outputs));
}

std::vector<Tensor> run_op(const OpDef& op, const Tensor* const* inputs, int input_count,
                           const std::vector<AttrValue>& attrs) {
  Few<const TensorType*> types(input_count);
  for (int i = 0; i < input_count; ++i) types[i] = *inputs[i] ? &inputs[i]->type() : nullptr;
  const std::vector<TensorType> out_types = infer_types(op, types.data(), input_count, attrs);
  std::vector<Tensor> outputs;
  outputs.reserve(out_types.size());
  if (!out_types.empty() && input_count > 0 && *inputs[0] && op.is_view_of(inputs[0]->type(), out_types[0])) {
    outputs.push_back(inputs[0]->reshaped(out_types[0]));
    return outputs;
  }
  for (const auto& t : out_types) outputs.emplace_back(t);
  run_kernel({op, inputs, input_count, outputs.data(), static_cast<int>(outputs.size()), attrs});
  return outputs;
}

std::vector<Tensor> run_op(const OpDef& op, const std::vector<Tensor>& inputs, const std::vector<AttrValue>& attrs) {
  Few<const Tensor*> pointers(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) pointers[i] = &inputs[i];
  return run_op(op, pointers.data(), static_cast<int>(inputs.size()), attrs);
}

}  // namespace paddock
