// Opening a library of operators and checking what it defines.
#include "extend/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <set>

#include "extend/entry.h"

namespace paddock {
namespace {

bool is_name(const std::string& s) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (s.empty() || !letter(s[0])) return false;
  return std::all_of(s.begin(), s.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

template <class... Args>
[[noreturn]] void incomplete(const OpDef& op, const Args&... args) {
  fail(ErrorKind::kInternal, "operator '", op.name, "' ", args...);
}

void check_names(const OpDef& op) {
  std::set<std::string> seen;
  auto check = [&](const std::string& name) {
    if (!is_name(name)) incomplete(op, "has an argument called '", name, "'; use letters, digits and _");
    if (!seen.insert(name).second) incomplete(op, "has two arguments called '", name, "'");
  };
  for (const auto& a : op.inputs) check(a.name);
  for (const auto& a : op.attrs) check(a.name);
  seen.clear();
  for (const auto& a : op.outputs) check(a.name);
  for (const auto* args : {&op.inputs, &op.outputs})
    for (size_t i = 0; i + 1 < args->size(); ++i)
      if ((*args)[i].variadic) incomplete(op, "has '", (*args)[i].name, "...' before its last argument");
}

void check_default(const OpDef& op, const AttrSpec& a) {
  if (a.doc.empty()) incomplete(op, "has an attribute '", a.name, "' without documentation");
  // The type's number is that of its alternative in AttrValue.
  if (!a.required && a.fallback.index() != static_cast<size_t>(a.type))
    incomplete(op, "has an attribute '", a.name, "' whose default is of another type than the attribute");
}

void check_complete(const OpDef& op) {
  if (!is_name(op.name)) incomplete(op, "needs a name of letters, digits and _");
  if (op.outputs.empty()) incomplete(op, "has no output in its signature");
  if (op.doc_text.empty()) incomplete(op, "has no documentation; call doc()");
  if (!op.infer_fn) incomplete(op, "has no shape rule; call infer()");
  if (!op.is_view && !op.kernel) incomplete(op, "has no kernel; call cpu()");
  if (op.is_elementwise || op.spreads)
    incomplete(op, "is declared elementwise() or spread(): those are operators that the kernel of `chain` computes");
  if (op.has_epilogue)
    incomplete(op, "is declared epilogue(): passes put sums and activations into operators of the registry only");
  if (!op.along_attr.empty() && op.attr_index(op.along_attr) < 0)
    incomplete(op, "works along '", op.along_attr, "', which is no attribute of it");
  for (const auto& a : op.attrs) check_default(op, a);
  check_names(op);
}

std::unique_ptr<OpDef> define(const OperatorEntry& entry) {
  auto op = std::make_unique<OpDef>();
  op->name = entry.name;
  op->family = "custom";
  read_signature(*op, entry.signature);
  try {
    entry.define(*op);
  } catch (const std::exception& e) {
    incomplete(*op, "cannot be defined: ", e.what());
  }
  check_complete(*op);
  return op;
}

std::vector<std::unique_ptr<OpDef>> define_all(void* library) {
  using EntriesFn = const OperatorEntry* (*)();
  const auto entries = reinterpret_cast<EntriesFn>(dlsym(library, "paddock_operator_entries"));
  std::vector<std::unique_ptr<OpDef>> ops;
  std::set<std::string> names;
  for (const OperatorEntry* e = entries ? entries() : nullptr; e; e = e->next) {
    ops.insert(ops.begin(), define(*e));  // the list has the last one first
    if (!names.insert(ops.front()->name).second) incomplete(*ops.front(), "is defined twice");
  }
  if (ops.empty()) fail(ErrorKind::kInternal, "it defines no operator; use PADDOCK_OPERATOR");
  return ops;
}

}  // namespace

std::vector<OpDef*> load_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(ErrorKind::kInternal, dlerror());
  try {
    std::vector<OpDef*> list;
    for (auto& op : define_all(library)) list.push_back(op.release());
    return list;
  } catch (...) {
    dlclose(library);
    throw;
  }
}

}  // namespace paddock
