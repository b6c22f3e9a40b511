// Conversions between Python objects and the native core's types.
#pragma once
#include <nanobind/nanobind.h>

#include "op/op.h"

namespace paddock {

namespace nb = nanobind;

Shape shape_from_python(nb::handle object);
nb::tuple shape_to_python(const Shape& shape);
// `value` as what the attribute holds; `who` names the operator in the error.
AttrValue attr_from_python(nb::handle value, const AttrSpec& spec, const std::string& who);
nb::object attr_to_python(const AttrValue& value);
std::vector<AttrValue> attrs_from_python(const OpDef& op, nb::tuple values);

// Each in the file of its name.
void bind_array(nb::module_& m);
void bind_files(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_pictures(nb::module_& m);
void bind_python_op(nb::module_& m);
void bind_program(nb::module_& m);
void bind_reader(nb::module_& m);
void bind_record(nb::module_& m);
void bind_snapshot(nb::module_& m);
void bind_table(nb::module_& m);

// Releases the GIL for work worth more than the cost of doing so.
class MaybeReleaseGil {
 public:
  explicit MaybeReleaseGil(bool release) : state_(release ? PyEval_SaveThread() : nullptr) {}
  ~MaybeReleaseGil() {
    if (state_) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

}  // namespace paddock
