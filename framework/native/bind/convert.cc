// Python numbers, strings and sequences to shapes and attributes, with errors that name the attribute.
#include "bind/convert.h"

#include <nanobind/stl/string.h>

namespace paddock {
namespace {

constexpr const char* kTypeNames[] = {"a bool",   "an int",         "a number",
                                      "a string", "an int or ints", "a number or numbers"};

[[noreturn]] void bad_type(const std::string& who, const AttrSpec& spec, nb::handle value) {
  fail(ErrorKind::kAttribute, who, ": ", spec.name, " takes ", kTypeNames[static_cast<int>(spec.type)], ", not ",
       nb::repr(value).c_str());
}

bool is_int(nb::handle h) { return !PyBool_Check(h.ptr()) && PyIndex_Check(h.ptr()); }

int64_t to_int(nb::handle h) {
  nb::object index = nb::steal(PyNumber_Index(h.ptr()));
  if (!index.is_valid()) nb::raise_python_error();
  return nb::cast<int64_t>(index);
}

bool is_number(nb::handle h) { return PyFloat_Check(h.ptr()) || is_int(h); }

double to_double(nb::handle h) {
  double v = PyFloat_AsDouble(h.ptr());
  if (v == -1.0 && PyErr_Occurred()) nb::raise_python_error();
  return v;
}

template <class T, class Is, class To>
std::vector<T> to_list(nb::handle value, const AttrSpec& spec, const std::string& who, Is is, To to) {
  if (is(value)) return {to(value)};
  if (!PySequence_Check(value.ptr()) || PyUnicode_Check(value.ptr())) bad_type(who, spec, value);
  std::vector<T> list;
  for (nb::handle h : nb::borrow<nb::object>(value)) {
    if (!is(h)) bad_type(who, spec, value);
    list.push_back(to(h));
  }
  return list;
}

}  // namespace

Shape shape_from_python(nb::handle object) {
  Shape shape;
  for (nb::handle h : nb::borrow<nb::object>(object)) shape.push_back(to_int(h));
  return shape;
}

nb::tuple shape_to_python(const Shape& shape) {
  PyObject* t = PyTuple_New(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) PyTuple_SET_ITEM(t, i, PyLong_FromLongLong(shape[i]));
  return nb::steal<nb::tuple>(t);
}

static AttrValue checked_attr(nb::handle value, const AttrSpec& spec, const std::string& who) {
  switch (spec.type) {
    case AttrType::kBool:
      if (!PyBool_Check(value.ptr())) bad_type(who, spec, value);
      return value.ptr() == Py_True;
    case AttrType::kInt:
      if (!is_int(value)) bad_type(who, spec, value);
      return to_int(value);
    case AttrType::kFloat:
      if (!is_number(value)) bad_type(who, spec, value);
      return to_double(value);
    case AttrType::kString:
      if (!PyUnicode_Check(value.ptr())) bad_type(who, spec, value);
      return nb::cast<std::string>(value);
    case AttrType::kInts:
      return to_list<int64_t>(value, spec, who, is_int, to_int);
    case AttrType::kFloats:
      return to_list<double>(value, spec, who, is_number, to_double);
  }
  bad_type(who, spec, value);
}

AttrValue attr_from_python(nb::handle value, const AttrSpec& spec, const std::string& who) {
  try {
    return checked_attr(value, spec, who);
  } catch (const std::bad_cast&) {  // a whole number beyond 64 bits, or half of a surrogate pair
    fail(ErrorKind::kAttribute, who, ": ", spec.name, " cannot hold ", nb::repr(value).c_str());
  }
}

nb::object attr_to_python(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> nb::object {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<double>>) {
          nb::list list;
          for (auto x : v) list.append(x);
          return nb::tuple(list);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return nb::str(v.c_str());
        } else {
          return nb::cast(v);
        }
      },
      value);
}

std::vector<AttrValue> attrs_from_python(const OpDef& op, nb::tuple values) {
  if (values.size() != op.attrs.size())
    fail(ErrorKind::kInternal, op.name, ": got ", values.size(), " attributes, its signature has ", op.attrs.size());
  std::vector<AttrValue> attrs;
  attrs.reserve(op.attrs.size());
  for (size_t i = 0; i < op.attrs.size(); ++i) attrs.push_back(attr_from_python(values[i], op.attrs[i], op.name));
  return attrs;
}

}  // namespace paddock
