// Attributes from JSON, and the number of inputs.
#include "predictor/signature.h"

#include <algorithm>

#include "predictor/outside.h"

namespace paddock::predictor {
namespace {

using Kind = Json::Kind;

[[noreturn]] void bad_attr(const OpDef& op, const AttrSpec& spec, const Json& v) {
  constexpr const char* takes[] = {"true or false", "a whole number",          "a number",
                                   "a text",        "a list of whole numbers", "a list of numbers"};
  if (v.is(Kind::kHuge)) refuse(op.name, ": ", spec.name, " cannot hold a number beyond 64 bits");
  refuse(op.name, ": ", spec.name, " takes ", takes[static_cast<int>(spec.type)], ", not ", kind_name(v.kind));
}

double real_of(const OpDef& op, const AttrSpec& spec, const Json& v) {
  if (v.is(Kind::kInt)) return static_cast<double>(v.whole);
  if (!v.is(Kind::kFloat)) bad_attr(op, spec, v);
  return v.real;
}

int64_t whole_of(const OpDef& op, const AttrSpec& spec, const Json& v) {
  if (!v.is(Kind::kInt)) bad_attr(op, spec, v);
  return v.whole;
}

template <class T, class Read>
std::vector<T> several(const OpDef& op, const AttrSpec& spec, const Json& v, Read read) {
  if (!v.is(Kind::kArray)) return {read(op, spec, v)};
  std::vector<T> list;
  list.reserve(v.count);
  for (const Json* item = v.items_begin(); item != v.items_end(); ++item) list.push_back(read(op, spec, *item));
  return list;
}

AttrValue attr_of(const OpDef& op, const AttrSpec& spec, const Json& v) {
  switch (spec.type) {
    case AttrType::kBool:
      if (!v.is(Kind::kBool)) bad_attr(op, spec, v);
      return v.truth;
    case AttrType::kInt:
      return whole_of(op, spec, v);
    case AttrType::kFloat:
      return real_of(op, spec, v);
    case AttrType::kString:
      if (!v.is(Kind::kString)) bad_attr(op, spec, v);
      return std::string(v.string());
    case AttrType::kInts:
      return several<int64_t>(op, spec, v, whole_of);
    case AttrType::kFloats:
      return several<double>(op, spec, v, real_of);
  }
  bad_attr(op, spec, v);
}

}  // namespace

std::vector<AttrValue> attrs_of(const OpDef& op, const Json& given) {
  for (const auto* m = given.members; m != given.members + given.count; ++m)
    if (op.attr_index(m->name) < 0) refuse(op.name, ": takes no attribute '", m->name.substr(0, 80), "'");
  std::vector<AttrValue> values;
  values.reserve(op.attrs.size());
  for (const auto& spec : op.attrs) {
    const Json* found = given.find(spec.name);
    if (!found && spec.required) refuse(op.name, ": attribute '", spec.name, "' is missing: ", spec.doc);
    values.push_back(found ? attr_of(op, spec, *found) : spec.fallback);
  }
  return values;
}

void check_arguments(const OpDef& op, const std::vector<int>& inputs) {
  size_t least = 0;
  bool variadic = false;
  for (const auto& a : op.inputs) {
    least += !a.optional;
    variadic |= a.variadic;
  }
  if (inputs.size() < least || (inputs.size() > op.inputs.size() && !variadic))
    refuse(op.name, " cannot take ", inputs.size(), " inputs");
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == kAbsent && (op.inputs.empty() || !op.inputs[std::min(i, op.inputs.size() - 1)].optional))
      refuse(op.name, ": its input number ", i, " is absent");
}

}  // namespace paddock::predictor
