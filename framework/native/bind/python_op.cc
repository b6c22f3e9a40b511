// Operators that are Python functions, and those of the user's own libraries.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/convert.h"
#include "extend/library.h"
#include "op/context.h"
#include "paddock/abi.h"

namespace paddock {
namespace {

// An operator whose shape rule and kernel are methods of its Python object. A plan runs outside the GIL and takes it
// for the call.
struct PythonOp : OpDef {};

// The Python object, a subclass with the methods `output_types` and `compute`; it outlives every plan that has the
// operator.
nb::object object_of(const OpDef& op) { return nb::find(static_cast<const PythonOp&>(op)); }

void infer(InferContext& c) {
  nb::gil_scoped_acquire gil;
  nb::list types;
  for (int i = 0; i < c.input_count(); ++i)
    types.append(nb::make_tuple(shape_to_python(c.shape(i)), dtype_name(c.in(i).dtype)));
  int i = 0;
  for (nb::handle h : object_of(c.op()).attr("output_types")(types)) {
    auto type = nb::cast<nb::tuple>(h);
    c.out(i++, shape_from_python(type[0]), dtype_from_name(nb::cast<std::string>(type[1]), c.op().name));
  }
}

void compute(const KernelContext& c) {
  nb::gil_scoped_acquire gil;
  nb::list in, out;
  for (int i = 0; i < c.input_count(); ++i) in.append(nb::cast(c.in(i)));
  for (int i = 0; i < c.output_count(); ++i) out.append(nb::cast(c.out(i)));
  object_of(c.op()).attr("compute")(in, out);
}

nb::dict abi() {
  const AbiDescription description;
  nb::dict d;
  d["headers"] = std::string(description.headers, sizeof(description.headers));
  d["version"] = description.version;
  d["standard_library"] = description.standard_library;
  d["note_type"] = kAbiNoteType;
  return d;
}

}  // namespace

void bind_python_op(nb::module_& m) {
  nb::class_<PythonOp, OpDef>(m, "PythonOp", "Base of operators that are Python functions.")
      .def("__init__", [](PythonOp* self, const std::string& name, const std::string& signature) {
        new (self) PythonOp;
        self->name = name;
        self->family = "python";
        read_signature(*self, signature);
        self->infer(&infer).cpu(&compute).fails_late([](const OpDef&, const std::vector<AttrValue>&) { return true; });
      });
  m.def("load_library", &load_library, nb::rv_policy::reference,
        "The operators of a library; it must have been checked against abi() before.");
  m.def("abi", &abi, "What a library of operators must agree with the core on.");
}

}  // namespace paddock
