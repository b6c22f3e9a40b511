// Executable in Python: built from plain lists, run without the GIL.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/convert.h"
#include "plan/control.h"

namespace paddock {
namespace {

// instructions: (op, input numbers, output numbers, attributes).
ProgramDesc make_program(int inputs, int states, int values, const std::vector<Tensor>& constants,
                         nb::list instructions, const std::vector<int>& results, nb::list updates) {
  ProgramDesc p;
  p.input_count = inputs;
  p.state_count = states;
  p.value_count = values;
  p.constants = constants;
  p.results = results;
  for (nb::handle h : instructions) {
    auto row = nb::cast<nb::tuple>(h);
    Instruction ins;
    ins.op = nb::cast<const OpDef*>(row[0]);
    ins.inputs = nb::cast<std::vector<int>>(row[1]);
    ins.outputs = nb::cast<std::vector<int>>(row[2]);
    ins.attrs = attrs_from_python(*ins.op, nb::cast<nb::tuple>(row[3]));
    p.instructions.push_back(std::move(ins));
  }
  for (nb::handle h : updates) {
    auto row = nb::cast<nb::tuple>(h);
    p.updates.push_back({nb::cast<int>(row[0]), nb::cast<int>(row[1])});
  }
  return p;
}

constexpr const char* kPlaceNames[] = {"none", "input", "state", "constant", "arena", "result"};

nb::dict describe(const Plan& plan) {
  nb::dict d;
  d["arena_bytes"] = plan.arena_bytes;
  d["lower_bound_bytes"] = plan.lower_bound;
  d["naive_bytes"] = plan.naive_bytes;
  d["in_place_count"] = plan.in_place_count;
  nb::list values;
  for (size_t v = 0; v < plan.types.size(); ++v) {
    const auto& place = plan.places[v];
    values.append(nb::make_tuple(shape_to_python(plan.types[v].shape), dtype_name(plan.types[v].dtype),
                                 kPlaceNames[place.kind], place.index, place.offset, plan.root[v]));
  }
  d["values"] = values;
  return d;
}

}  // namespace

void bind_program(nb::module_& m) {
  nb::class_<Executable>(m, "Executable", "A program with its plans and its arena.")
      .def("__init__",
           [](Executable* self, int inputs, int states, int values, const std::vector<Tensor>& constants,
              nb::list instructions, const std::vector<int>& results, nb::list updates) {
             new (self) Executable(make_program(inputs, states, values, constants, instructions, results, updates));
           })
      .def("run",
           [](Executable& e, const std::vector<Tensor>& inputs, const std::vector<Tensor>& states) {
             nb::gil_scoped_release release;
             return e.run(inputs, states);
           })
      .def(
          "last_plan",
          [](Executable& e) -> nb::object {
            std::optional<Plan> plan;
            {
              nb::gil_scoped_release release;  // a run that holds the lock may be waiting for the GIL
              plan = e.last_plan();
            }
            return plan ? nb::object(describe(*plan)) : nb::none();
          },
          "What the memory plan that was used or prepared last looks like; None when there is none.")
      .def("prepare", &Executable::prepare, nb::call_guard<nb::gil_scoped_release>())
      .def("forget_plans", &Executable::forget_plans, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("id", &Executable::id, "Tells the records of this program from others'.")
      .def_prop_ro("plans_made", &Executable::plans_made);
  nb::class_<ControlOp, OpDef>(m, "ControlOp", "One use of cond, loop or scan, with its blocks as Executables.")
      .def(
          "__init__",
          [](ControlOp* self, const std::string& kind, std::vector<Executable*> blocks, nb::handle) {
            new (self) ControlOp(kind, std::move(blocks));
          },
          nb::arg("kind"), nb::arg("blocks"), nb::arg("owner"), nb::keep_alive<1, 4>());
}

}  // namespace paddock
