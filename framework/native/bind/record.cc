// Recorder in Python: started and stopped on the thread that runs the work, its records as plain tuples.
#include "op/record.h"

#include <nanobind/stl/string.h>

#include "bind/convert.h"

namespace paddock {
namespace {

nb::tuple type_to_python(const TensorType& type) {
  return nb::make_tuple(shape_to_python(type.shape), dtype_name(type.dtype));
}

nb::list types_to_python(const std::vector<TensorType>& types, const std::vector<bool>& present) {
  nb::list list;
  for (size_t i = 0; i < types.size(); ++i)
    list.append(present[i] ? nb::object(type_to_python(types[i])) : nb::object(nb::none()));
  return list;
}

nb::tuple to_python(const Record& r) {
  nb::list attrs;
  for (const auto& a : r.attrs) attrs.append(attr_to_python(a));
  return nb::make_tuple(r.op, r.program, r.instruction, r.begin_ns, r.end_ns, r.implementation,
                        types_to_python(r.inputs, r.present),
                        types_to_python(r.outputs, std::vector<bool>(r.outputs.size(), true)), nb::tuple(attrs));
}

}  // namespace

void bind_record(nb::module_& m) {
  nb::class_<Recorder>(m, "Recorder", "Collects which kernels this thread runs, and when.")
      .def(nb::init<int64_t>(), nb::arg("limit"))
      .def("start", &Recorder::start)
      .def("stop", &Recorder::stop)
      .def(
          "take",
          [](Recorder& r) {
            nb::list list;
            for (const auto& record : r.take()) list.append(to_python(record));
            return list;
          },
          "Records as (operator, program, instruction, begin ns, end ns, implementation, types of inputs, of outputs, "
          "attributes); a type is (shape, dtype).")
      .def_prop_ro("dropped", &Recorder::dropped);
}

}  // namespace paddock
