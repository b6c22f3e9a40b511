// From JSON to a module. Every check that framework/graph/files.py makes is made here, before anything runs.
#include "predictor/program_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "predictor/json.h"
#include "predictor/sealing/opening.h"
#include "predictor/signature.h"
#include "predictor/weights.h"

namespace paddock::predictor {
namespace {

constexpr int64_t kFormat = 1;
constexpr const char* kProgram = "program.json";
constexpr const char* kWeights[] = {"weights.safetensors", "weights.2.safetensors"};
constexpr int64_t kMostElements = int64_t{1} << 40;  // a shape with more is a damaged file, not a model
constexpr const char* kAgain = "; export the model again";

using Kind = Json::Kind;
using Tensors = std::map<std::string, Tensor, std::less<>>;
using Count = unsigned __int128;  // elements of many values together

// -- members of objects, by name and kind
const Json& member(const Json& of, const char* name) {
  if (!of.is(Kind::kObject)) refuse("malformed: ", kind_name(of.kind), " where an object is expected", kAgain);
  const Json* found = of.find(name);
  if (!found) refuse("malformed: '", name, "' is missing", kAgain);
  return *found;
}

const Json& member(const Json& of, const char* name, Kind kind) {
  const Json& found = member(of, name);
  if (!found.is(kind)) refuse("malformed: '", name, "' is ", kind_name(found.kind), ", not ", kind_name(kind), kAgain);
  return found;
}

const Json& list_of(const Json& of, const char* name) {
  const Json* found = of.find(name);
  if (!found || !found->is(Kind::kArray)) refuse("'", name, "' is no list", kAgain);
  return *found;
}

int64_t number_of(const Json& v) {
  if (!v.is(Kind::kInt)) refuse("malformed: ", kind_name(v.kind), " where the number of a value is expected", kAgain);
  return v.whole;
}

const std::map<std::string_view, const OpDef*>& operators() {
  static const auto* all = [] {
    auto* by_name = new std::map<std::string_view, const OpDef*>;
    for (const OpDef* op : all_ops()) by_name->emplace(op->name, op);
    return by_name;
  }();
  return *all;
}

Count elements(const TensorType& t) {
  Count n = 1;
  for (int64_t d : t.shape) n *= static_cast<Count>(d);
  return n;
}

int64_t clipped(Count n) { return n > Count{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(n); }

// -- one program or block
class Reader {
 public:
  Reader(const Tensors& tensors, const Limits& limits, int depth) : tensors_(tensors), limits_(limits), depth_(depth) {}

  // Reads it; what is asked for below stands then.
  void read(const Json& data);

  std::vector<NamedType> inputs, results;
  std::vector<std::string> state_names;
  std::vector<Tensor> states;
  std::unique_ptr<Module> module;
  Count alive = 0;  // the most elements of operations' results that are alive at the same time
  Count given = 0;  // elements of inputs, states and constants

 private:
  void check_form(const Json& data) const;
  std::string name_of(const Json& d) const;
  TensorType type_of(const Json& d) const;
  const Tensor& tensor_of(const Json& d) const;
  void define(int64_t id, const TensorType& type);
  int value(const Json& id) const;
  void read_inputs(const Json& list);
  void read_states(const Json& list);
  void read_constants(const Json& list);
  void check_shared(const Json& state_list, const Json& constant_list) const;
  void read_operation(const Json& d);
  const OpDef& control(const Json& d, const Json& blocks);
  void read_outputs(const OpDef& op, const Json& list, Instruction& ins);
  void read_updates(const Json& list);
  void count_alive();

  const Tensors& tensors_;
  const Limits& limits_;
  const int depth_;
  ProgramDesc program_;
  std::unordered_map<int64_t, int> numbers_;  // by the file's number of a value
  std::vector<TensorType> types_;             // by ours
  std::vector<ControlUse> uses_;
  std::vector<std::string> lines_;
  std::vector<Count> block_alive_;  // by operation: the most of its blocks
  Count largest_ = 0;
};

void Reader::check_form(const Json& data) const {
  if (!data.is(Kind::kObject)) refuse("holds ", kind_name(data.kind), " where a program is expected", kAgain);
  for (const char* key : {"inputs", "states", "constants", "operations", "results", "updates", "shape_reads"})
    list_of(data, key);
  const Json& format = member(data, "format");
  if (!format.is(Kind::kInt) || format.whole != kFormat)
    refuse("format ", format.is(Kind::kInt) ? cat(format.whole) : std::string(kind_name(format.kind)), " is not ",
           kFormat,
           format.is(Kind::kInt) && format.whole > kFormat
               ? "; it is newer than this library, of which a newer one reads it"
               : "; export the model again with this version");
  if (depth_ > limits_.levels) check_limit("levels", limits_.levels, depth_, "blocks are nested too deeply");
  check_limit("nodes", limits_.nodes, data.find("operations")->count, "it has too many operations");
  if (depth_ && (data.find("states")->count || data.find("updates")->count))
    refuse("a block has states; only the Program around it can");
  if (!depth_ && !data.find("results")->count && !data.find("updates")->count)
    refuse("'results' is empty, so the program gives nothing", kAgain);
}

std::string Reader::name_of(const Json& d) const {
  const Json& name = member(d, "name");
  if (name.is(Kind::kNull)) return {};
  if (!name.is(Kind::kString)) refuse("the name of a value is ", kind_name(name.kind), ", not a text", kAgain);
  return std::string(name.string());
}

TensorType Reader::type_of(const Json& d) const {
  const Json& shape = member(d, "shape");
  if (!shape.is(Kind::kArray) ||
      !std::all_of(shape.items_begin(), shape.items_end(), [](const Json& n) { return n.is(Kind::kInt); }))
    refuse("a shape is no list of whole numbers", kAgain);
  if (shape.count > static_cast<uint32_t>(kMaxRank)) refuse("a shape has more than ", kMaxRank, " axes");
  TensorType type;
  Count size = 1;
  for (const Json* n = shape.items_begin(); n != shape.items_end(); ++n) type.shape.push_back(n->whole);
  for (int64_t n : type.shape) {
    size *= static_cast<Count>(std::max<int64_t>(n, 1));  // an extent of 0 makes no other one possible
    if (n < 0 || size > Count{kMostElements}) refuse("impossible shape ", type.shape);
  }
  const std::string_view wanted = member(d, "dtype", Kind::kString).string();
  for (int i = 0; i < kDTypeCount; ++i) {
    type.dtype = static_cast<DType>(i);
    if (wanted == dtype_name(type.dtype)) return type;
  }
  refuse("unknown type '", wanted.substr(0, 80), "'");
}

const Tensor& Reader::tensor_of(const Json& d) const {
  const std::string_view name = member(d, "tensor", Kind::kString).string();
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse("the weights lack '", name.substr(0, 200), "'");
  const TensorType &there = found->second.type(), wanted = type_of(d);
  if (!(there == wanted))
    refuse("'", name, "' is ", there.dtype, there.shape, " in the weights but ", wanted.dtype, wanted.shape,
           " in the program");
  return found->second;
}

void Reader::define(int64_t id, const TensorType& type) {
  if (!numbers_.emplace(id, static_cast<int>(types_.size())).second) refuse("value ", id, " is defined twice");
  types_.push_back(type);
}

int Reader::value(const Json& id) const {
  const auto found = numbers_.find(number_of(id));
  if (found == numbers_.end()) refuse("value ", id.whole, " is used but not defined before");
  return found->second;
}

void Reader::read_inputs(const Json& list) {
  for (const Json* d = list.items_begin(); d != list.items_end(); ++d) {
    NamedType input{name_of(*d), type_of(*d)};
    if (input.name.empty()) input.name = cat("input", inputs.size());
    define(number_of(member(*d, "id")), input.type);
    given += elements(input.type);
    inputs.push_back(std::move(input));
  }
  program_.input_count = static_cast<int>(inputs.size());
}

void Reader::read_states(const Json& list) {
  for (const Json* d = list.items_begin(); d != list.items_end(); ++d) {
    const Tensor& t = tensor_of(*d);
    Tensor own(t.type());  // a run writes it
    if (t.bytes()) std::memcpy(own.raw(), t.raw(), static_cast<size_t>(t.bytes()));
    define(number_of(member(*d, "id")), t.type());
    given += elements(t.type());
    states.push_back(std::move(own));
    state_names.push_back(name_of(*d));
  }
  program_.state_count = static_cast<int>(states.size());
}

void Reader::read_constants(const Json& list) {
  for (const Json* d = list.items_begin(); d != list.items_end(); ++d) {
    name_of(*d);
    program_.constants.push_back(tensor_of(*d));
    define(number_of(member(*d, "id")), program_.constants.back().type());
    given += elements(program_.constants.back().type());
  }
}

// A tensor that is a state and something else too is refused: an update would change both.
void Reader::check_shared(const Json& state_list, const Json& constant_list) const {
  std::map<std::string_view, int> uses;
  for (const Json* list : {&state_list, &constant_list})
    for (const Json* d = list->items_begin(); d != list->items_end(); ++d)
      ++uses[member(*d, "tensor", Kind::kString).string()];
  for (const Json* d = state_list.items_begin(); d != state_list.items_end(); ++d)
    if (const auto name = d->find("tensor")->string(); uses[name] > 1)
      refuse("'", name, "' is a state and also used for another value");
}

const OpDef& Reader::control(const Json& d, const Json& blocks) {
  ControlUse use{program_.instructions.size(), {}, nullptr};
  std::vector<Executable*> executables;
  Count most = 0;
  for (const Json* b = blocks.items_begin(); b != blocks.items_end(); ++b) {
    Reader inner(tensors_, limits_, depth_ + 1);
    inner.read(*b);
    most = std::max(most, inner.alive);
    executables.push_back(&inner.module->executable());
    use.blocks.push_back(std::move(inner.module));
  }
  block_alive_.back() = most;
  use.op = std::make_unique<ControlOp>(std::string(member(d, "op", Kind::kString).string()), std::move(executables));
  uses_.push_back(std::move(use));
  return *uses_.back().op;
}

const OpDef& registered(const Json& d) {
  const std::string_view name = member(d, "op", Kind::kString).string();
  const auto found = operators().find(name);
  if (found != operators().end()) return *found->second;
  if (d.find("library"))
    refuse("operator '", name.substr(0, 80), "' is of a library of the user's own, which this predictor cannot load");
  refuse("operator '", name.substr(0, 80), "' does not exist in this version");
}

void Reader::read_outputs(const OpDef& op, const Json& list, Instruction& ins) {
  std::vector<const TensorType*> in;
  for (int v : ins.inputs) in.push_back(v == kAbsent ? nullptr : &types_[static_cast<size_t>(v)]);
  const auto out = infer_types(op, in.data(), static_cast<int>(in.size()), ins.attrs);
  if (out.size() != list.count) refuse(op.name, " has ", out.size(), " outputs, the file lists ", list.count);
  for (size_t i = 0; i < out.size(); ++i) {
    ins.outputs.push_back(static_cast<int>(types_.size()));
    define(number_of(list.elements[i]), out[i]);
    if (elements(out[i]) > largest_)
      refuse(op.name, " makes ", out[i].dtype, out[i].shape, ", which is out of proportion to the model's inputs. ",
             how_to_raise("elements"));
  }
}

void Reader::read_operation(const Json& d) {
  const Json &given_inputs = member(d, "inputs", Kind::kArray), *blocks = d.find("blocks"), *line = d.find("where");
  if (blocks && !blocks->is(Kind::kArray)) refuse("malformed: 'blocks' is no list", kAgain);
  block_alive_.push_back(0);
  const OpDef& op = blocks && blocks->count ? control(d, *blocks) : registered(d);
  if (!op.is_view && !op.kernel) refuse("operator '", op.name, "' has no kernel here");
  Instruction ins{&op, {}, {}, {}};
  for (const Json* v = given_inputs.items_begin(); v != given_inputs.items_end(); ++v)
    ins.inputs.push_back(v->is(Kind::kNull) ? kAbsent : value(*v));
  check_arguments(op, ins.inputs);
  ins.attrs = attrs_of(op, member(d, "attrs", Kind::kObject));
  read_outputs(op, member(d, "outputs", Kind::kArray), ins);
  lines_.emplace_back(line && line->is(Kind::kString) ? line->string() : std::string_view());
  program_.instructions.push_back(std::move(ins));
}

void Reader::read_updates(const Json& list) {
  std::set<int> updated;
  for (const Json* pair = list.items_begin(); pair != list.items_end(); ++pair) {
    if (!pair->is(Kind::kArray) || pair->count != 2) refuse("malformed: an update is no pair of values", kAgain);
    const int state = value(pair->elements[0]), by = value(pair->elements[1]);
    if (state < program_.first_state() || state >= program_.first_constant())
      refuse("update of value ", pair->elements[0].whole, ", which is not a state");
    const TensorType &old = types_[static_cast<size_t>(state)], &now = types_[static_cast<size_t>(by)];
    if (old.dtype != now.dtype || old.shape.rank() != now.shape.rank())
      refuse("update of state ", pair->elements[0].whole, ": ", old.dtype, old.shape, " with a ", now.dtype, now.shape);
    if (!updated.insert(state).second) refuse("update of state ", pair->elements[0].whole, " twice");
    program_.updates.push_back({state - program_.first_state(), by});
  }
}

// With no result in the memory of another.
void Reader::count_alive() {
  const size_t count = program_.instructions.size();
  std::vector<int64_t> last(types_.size(), -1);
  for (size_t k = 0; k < count; ++k)
    for (int v : program_.instructions[k].inputs)
      if (v != kAbsent) last[static_cast<size_t>(v)] = static_cast<int64_t>(k);
  for (int v : program_.results) last[static_cast<size_t>(v)] = static_cast<int64_t>(count);
  for (const auto& u : program_.updates) last[static_cast<size_t>(u.value)] = static_cast<int64_t>(count);
  std::vector<Count> ends(count + 1);
  Count now = 0;
  for (size_t k = 0; k < count; ++k) {
    for (int v : program_.instructions[k].outputs) {
      const Count size = elements(types_[static_cast<size_t>(v)]);
      const int64_t end = last[static_cast<size_t>(v)];
      now += size;
      ends[end < 0 ? k : static_cast<size_t>(end)] += size;
    }
    alive = std::max(alive, now + block_alive_[k]);
    now -= ends[k];
  }
}

void Reader::read(const Json& data) {
  check_form(data);
  read_inputs(*data.find("inputs"));
  read_states(*data.find("states"));
  read_constants(*data.find("constants"));
  check_shared(*data.find("states"), *data.find("constants"));
  largest_ = std::max(Count(limits_.elements), Count(limits_.element_growth) * given);
  const Json& operations = *data.find("operations");
  for (const Json* d = operations.items_begin(); d != operations.items_end(); ++d) read_operation(*d);
  const Json& result_list = *data.find("results");
  for (const Json* v = result_list.items_begin(); v != result_list.items_end(); ++v) {
    program_.results.push_back(value(*v));
    results.push_back({cat("output", results.size()), types_[static_cast<size_t>(program_.results.back())]});
  }
  read_updates(*data.find("updates"));
  program_.value_count = static_cast<int>(types_.size());
  count_alive();
  module = std::make_unique<Module>(std::move(program_), std::move(uses_), std::move(lines_));
}

// -- the whole file
const char* weights_name(const Json& data) {
  const Json* name = data.find("weights");
  if (!name) return kWeights[0];
  for (const char* known : kWeights)
    if (name->is(Kind::kString) && name->string() == known) return known;
  refuse("its weights are said to be in a file that is neither ", kWeights[0], " nor ", kWeights[1]);
}

// The outputs' names that an exporter stored, where they fit.
void name_outputs(std::vector<NamedType>& outputs, const Json& extra) {
  const Json* names = extra.find("outputs");
  if (!names || !names->is(Kind::kArray) || names->count != outputs.size()) return;
  if (!std::all_of(names->items_begin(), names->items_end(), [](const Json& n) { return n.is(Kind::kString); })) return;
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].name = names->elements[i].string();
}

// The files of an export: those of a folder, or what a seal held.
class ExportFiles {
 public:
  ExportFiles(const std::string& folder, const Limits& limits, bool map_weights, const sealing::OpeningKeys& keys)
      : folder_(folder), limits_(limits), map_weights_(map_weights) {
    if (sealing::is_sealed(folder))
      opened_ = sealing::open_sealed(folder, keys, limits);
    else if (keys.verify)
      refuse(folder, ": is not sealed, and only what the owner of the key `verify` signed is opened");
  }

  std::string path(const char* name) const { return folder_ + "/" + name; }
  std::string signer() const { return opened_ ? opened_->signer : std::string(); }

  std::string text(const char* name) const {
    if (!opened_) return read_file(path(name), "text_bytes", limits_.text_bytes);
    const FileBytes found = sealed(name);
    check_limit("text_bytes", limits_.text_bytes, found.size, path(name) + ": it has too many bytes");
    return {found.data, static_cast<size_t>(found.size)};
  }

  Tensors tensors(const char* name) const {
    if (opened_) return load_tensors(path(name), sealed(name), Copies::kWiped);  // is in memory of its own anyway
    const auto file = std::make_shared<MappedFile>(path(name), "weight_bytes", limits_.weight_bytes);
    return load_tensors(path(name), {file, file->data(), file->size()},
                        map_weights_ ? Copies::kWhereNeeded : Copies::kAlways);
  }

 private:
  FileBytes sealed(const char* name) const {
    const auto found = opened_->files.find(name);
    if (found == opened_->files.end()) refuse(folder_, ": its seal names no ", name, kAgain);
    return {found->second, found->second->data(), opened_->sizes.find(name)->second};
  }

  const std::string& folder_;
  const Limits& limits_;
  const bool map_weights_;
  std::optional<sealing::OpenedSeal> opened_;
};

Export read_parts(const ExportFiles& files, const JsonDocument& document, const Limits& limits) {
  const Json& data = document.root();
  if (!data.is(Kind::kObject)) refuse("holds ", kind_name(data.kind), " where a program is expected", kAgain);
  const Json* extra = data.find("extra");
  if (extra && !extra->is(Kind::kObject)) refuse("'extra' is ", kind_name(extra->kind), ", not an object", kAgain);
  const Json& shape_reads = list_of(data, "shape_reads");
  const Tensors tensors = files.tensors(weights_name(data));
  Reader reader(tensors, limits, 0);
  reader.read(data);
  if (reader.alive > Count(limits.element_growth) * reader.given)
    check_limit("plan_elements", limits.plan_elements, clipped(reader.alive),
                "its operations hold too many elements at the same time");
  Export found;
  found.inputs = std::move(reader.inputs);
  found.outputs = std::move(reader.results);
  found.states = std::move(reader.states);
  found.state_names = std::move(reader.state_names);
  found.module = std::move(reader.module);
  found.signer = files.signer();
  found.extra = extra ? document.source(*extra) : "{}";
  if (extra) name_outputs(found.outputs, *extra);
  if (shape_reads.count)
    found.fixed_by =
        shape_reads.elements[0].is(Kind::kString) ? shape_reads.elements[0].string() : "a line of the model";
  return found;
}

}  // namespace

Export read_export(const std::string& folder, const Limits& limits, bool map_weights,
                   const sealing::OpeningKeys& keys) {
  const ExportFiles files(folder, limits, map_weights, keys);
  const std::string path = files.path(kProgram);
  try {
    const JsonDocument document(files.text(kProgram));
    return read_parts(files, document, limits);
  } catch (const std::invalid_argument& e) {
    refuse(path, ": not valid JSON (", e.what(), "); export the model again");
  } catch (const FileError& e) {
    const std::string what = e.what();
    if (what.starts_with(path)) throw;
    refuse(path, ": ", what);
  } catch (const Error& e) {
    refuse(path, ": ", e.what());
  }
}

}  // namespace paddock::predictor
