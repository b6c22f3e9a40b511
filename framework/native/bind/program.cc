// Executable in Python: built from plain lists, run without the GIL.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bind/convert.h"
#include "op/numbers.h"
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

// What `states` and the Python tensor hold of an Array, and what the Array holds of its storage, when nobody else has
// it.
constexpr Py_ssize_t kOwnReferences = 2;
constexpr long kOwnStorages = 1;

// Whether somebody else sees the memory of an Array that stands in a list: a snapshot, a view, NumPy, an input.
bool is_shared(nb::handle array, const Tensor& t) {
  const auto& storage = t.storage();
  return Py_REFCNT(array.ptr()) > kOwnReferences || storage.use_count() > kOwnStorages || storage->is_foreign();
}

Tensor copy_of(const Tensor& t) {
  Tensor own(t.type());
  std::memcpy(own.raw(), t.raw(), t.bytes());
  return own;
}

nb::tuple run(Executable& e, const std::vector<Tensor>& inputs, nb::list state_list) {
  const auto count = static_cast<Py_ssize_t>(state_list.size());
  const auto item = [&](Py_ssize_t i) {
    return nb::handle(PyList_GetItem(state_list.ptr(), i));
  };  // takes no reference
  e.forget_torn();  // what is refused below was refused before anything ran
  std::vector<int>
      shared;  // asked before `states` refers to their storages too; of what is only read it does not matter
  for (const auto& u : e.updates())
    if (u.state < count && is_shared(item(u.state), nb::cast<const Tensor&>(item(u.state)))) shared.push_back(u.state);
  std::vector<Tensor> states;
  states.reserve(count);
  for (Py_ssize_t i = 0; i < count; ++i) states.push_back(nb::cast<const Tensor&>(item(i)));
  std::vector<Tensor> results;
  {
    nb::gil_scoped_release release;
    for (int i : shared) {
      states[i].expect_whole();
      states[i] = copy_of(states[i]);
    }
    try {
      results = e.run(inputs, states);
    } catch (...) {
      for (int i : shared) e.spare(i);  // what was written was not theirs
      throw;
    }
  }
  nb::dict moved;
  for (int i : shared) moved[nb::int_(i)] = nb::cast(states[i]);
  return nb::make_tuple(results, moved);
}

// Lets Ctrl-C end a loop in the main thread; Python raises nothing in others.
void raise_signals() {
  nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
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
  set_interrupt_check(raise_signals);
  m.def("set_step_budget", &set_step_budget, nb::arg("steps"),
        "Steps that loops and scans may take in this thread from here on; returns what was left before.");
  m.def(
      "set_number_check", [](int check) { return static_cast<int>(set_number_check(static_cast<NumberCheck>(check))); },
      nb::arg("check"),
      "Looks at results of operators of this thread: 0 not, 1 for NaN, 2 for infinities too; returns what it was.");
  nb::class_<Executable>(m, "Executable", "A program with its plans and its arena.")
      .def("__init__",
           [](Executable* self, int inputs, int states, int values, const std::vector<Tensor>& constants,
              nb::list instructions, const std::vector<int>& results, nb::list updates) {
             new (self) Executable(make_program(inputs, states, values, constants, instructions, results, updates));
           })
      .def(
          "run",
          [](Executable& e, const std::vector<Tensor>& inputs, nb::list states) { return run(e, inputs, states); },
          "(results, {number of a state: its new Array}): a state whose memory somebody else can read gets memory of "
          "its own; the others are updated in theirs.")
      .def_prop_ro("torn", &Executable::torn,
                   "The states that the last run, which failed, may have written in part, by number.")
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
      .def("kept_bytes", &Executable::kept_bytes, nb::call_guard<nb::gil_scoped_release>())
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
