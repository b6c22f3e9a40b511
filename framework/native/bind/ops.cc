// The registry in Python: every operator's description, and the eager call.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/convert.h"
#include "op/context.h"
#include "op/eager.h"
#include "op/record.h"

namespace paddock {
namespace {

constexpr int64_t kReleaseBytes = 64 << 10;  // outputs above this size are worth giving up the GIL

// `inputs` is a tuple, or a list that nobody changes during the call: it keeps the arrays alive.
nb::object call(const OpDef& op, nb::handle inputs, nb::tuple attr_values) {
  if (!PyList_Check(inputs.ptr()) && !PyTuple_Check(inputs.ptr()))
    fail(ErrorKind::kInternal, op.name, ": inputs must be a tuple or a list");
  const Tensor absent;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(inputs.ptr());
  PyObject** items = PySequence_Fast_ITEMS(inputs.ptr());
  Few<const Tensor*> in(n);
  int64_t bytes = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const nb::handle h = items[i];
    in[i] = h.is_none() ? &absent : &nb::cast<const Tensor&>(h);
    in[i]->expect_whole();
    bytes += h.is_none() ? 0 : in[i]->bytes();
  }
  const auto attrs = attrs_from_python(op, attr_values);
  std::vector<Tensor> out;
  {
    MaybeReleaseGil gil(bytes > kReleaseBytes);
    out = run_op(op, in.data(), static_cast<int>(n), attrs);
  }
  if (op.outputs.size() == 1 && !op.outputs[0].variadic) return nb::cast(std::move(out[0]));
  nb::list result;
  for (auto& t : out) result.append(nb::cast(std::move(t)));
  return nb::tuple(result);
}

nb::dict describe_arg(const ArgSpec& arg) {
  nb::dict d;
  d["name"] = arg.name;
  d["optional"] = arg.optional;
  d["variadic"] = arg.variadic;
  d["shape_only"] = arg.shape_only;
  d["wide"] = arg.wide;
  d["narrow"] = arg.narrow;
  return d;
}

nb::list names_to_python(const std::vector<std::string>& names) {
  nb::list list;
  for (const auto& name : names) list.append(nb::str(name.c_str()));
  return list;
}

nb::dict describe_attr(const AttrSpec& spec) {
  constexpr const char* types[] = {"bool", "int", "float", "str", "ints", "floats"};
  nb::dict d;
  d["name"] = spec.name;
  d["type"] = types[static_cast<int>(spec.type)];
  d["required"] = spec.required;
  d["default"] = spec.required ? nb::none() : attr_to_python(spec.fallback);
  d["doc"] = spec.doc;
  d["choices"] = nb::tuple(names_to_python(spec.choices));
  return d;
}

// (operator, names of what it takes), or None.
nb::object describe_recompute(const OpDef& op) {
  if (!op.recompute_by) return nb::none();
  return nb::make_tuple(op.recompute_by->op, nb::tuple(names_to_python(op.recompute_by->inputs)));
}

// (operator, attribute that must be 0 or ""), or None.
nb::object describe_rows_step(const OpDef& op) {
  return op.rows_form ? nb::object(nb::make_tuple(op.rows_form->op, op.rows_form->unless)) : nb::object(nb::none());
}

const char* precision_name(Precision p) {
  constexpr const char* names[] = {"float32", "half", "follows"};
  return names[static_cast<int>(p)];
}

template <class Spec, class Describe>
nb::list describe_all(const std::vector<Spec>& specs, Describe describe) {
  nb::list list;
  for (const auto& s : specs) list.append(describe(s));
  return list;
}

nb::list describe_inputs(const OpDef& op) {
  nb::list list = describe_all(op.inputs, describe_arg);
  for (size_t i = 0; i < op.inputs.size(); ++i) list[i]["offsets"] = op.reads_offsets(static_cast<int>(i));
  return list;
}

// Types of inputs given as shapes and dtypes, with null for an absent one.
struct InputTypes {
  std::vector<TensorType> types;
  std::vector<const TensorType*> pointers;

  InputTypes(const OpDef& op, nb::list shapes, nb::list dtypes)
      : types(shapes.size()), pointers(shapes.size(), nullptr) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i].is_none()) continue;
      types[i] = {shape_from_python(shapes[i]), dtype_from_name(nb::cast<std::string>(dtypes[i]), op.name)};
      pointers[i] = &types[i];
    }
  }
};

// (shape, dtype) of each output, for tracing.
nb::list infer(const OpDef& op, nb::list shapes, nb::list dtypes, nb::tuple attr_values) {
  const InputTypes in(op, shapes, dtypes);
  nb::list result;
  for (const auto& t :
       infer_types(op, in.pointers.data(), static_cast<int>(in.pointers.size()), attrs_from_python(op, attr_values)))
    result.append(nb::make_tuple(shape_to_python(t.shape), dtype_name(t.dtype)));
  return result;
}

}  // namespace

void bind_ops(nb::module_& m) {
  nb::class_<OpDef>(m, "Op", "An operator of the registry.")
      .def_ro("name", &OpDef::name)
      .def_ro("family", &OpDef::family)
      .def_ro("doc", &OpDef::doc_text)
      .def_ro("composition", &OpDef::composition)
      .def_ro("gradient_op", &OpDef::gradient_op)
      .def_ro("is_view", &OpDef::is_view)
      .def_ro("is_view_when_equal", &OpDef::is_view_when_equal)
      .def_ro("takes_half", &OpDef::takes_half)
      .def_ro("moves", &OpDef::moves)
      .def_ro("picks", &OpDef::picks)
      .def_ro("is_internal", &OpDef::is_internal)
      .def_ro("is_elementwise", &OpDef::is_elementwise)
      .def_ro("spreads", &OpDef::spreads)
      .def_ro("has_epilogue", &OpDef::has_epilogue)
      .def_ro("reads_table", &OpDef::reads_table)
      .def_ro("writes_table", &OpDef::writes_table)
      .def_ro("along", &OpDef::along_attr)
      .def_ro("derivative_of", &OpDef::derivative_op)
      .def_prop_ro("precision", [](const OpDef& op) { return precision_name(op.precision); })
      .def_prop_ro("recompute", &describe_recompute)
      .def_prop_ro("rows_step", &describe_rows_step)
      .def_prop_ro("is_heavy", [](const OpDef& op) { return op.flops_fn != nullptr; })
      .def_prop_ro("inputs", &describe_inputs)
      .def_prop_ro("outputs", [](const OpDef& op) { return describe_all(op.outputs, describe_arg); })
      .def_prop_ro("attrs", [](const OpDef& op) { return describe_all(op.attrs, describe_attr); })
      .def_prop_ro("in_place",
                   [](const OpDef& op) {
                     nb::list pairs;
                     for (auto p : op.in_place) pairs.append(nb::make_tuple(p.input, p.output));
                     return pairs;
                   })
      .def_prop_ro("has_shape_rule", [](const OpDef& op) { return op.infer_fn != nullptr; })
      .def_prop_ro("has_cpu_kernel", [](const OpDef& op) { return op.is_view || op.kernel != nullptr; });
  m.def("ops", [] { return all_ops(); }, nb::rv_policy::reference, "All operators.");
  m.def("call", &call, "Runs an operator at once: (op, inputs, attributes in signature order) -> Array or tuple.");
  m.def("infer", &infer, "The (shape, dtype) of each output.");
  m.def(
      "flops",
      [](const OpDef& op, nb::list shapes, nb::list dtypes, nb::tuple attr_values) {
        const InputTypes in(op, shapes, dtypes);
        return count_flops(op, in.pointers.data(), static_cast<int>(in.pointers.size()),
                           attrs_from_python(op, attr_values));
      },
      "The floating point operations of a call, by its definition; 0 where the operator declares none.");
  m.def(
      "implementation_of",
      [](const OpDef& op, nb::list shapes, nb::list dtypes, nb::tuple attr_values) {
        return implementation_of(op, InputTypes(op, shapes, dtypes).pointers, attrs_from_python(op, attr_values));
      },
      "Which way a convolution would be computed, without doing it.");
}

}  // namespace paddock
