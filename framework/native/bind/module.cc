// The extension module framework._core.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/convert.h"
#include "core/cores.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/subnormal.h"
#include "op/isa.h"

namespace paddock {
namespace {

// Raises the class of framework.errors that stands for the error's kind.
void translate(const std::exception_ptr& p, void*) {
  constexpr const char* classes[] = {"ShapeError", "DTypeError",    "AttributeValueError", "NotSupportedError",
                                     "StateError", "NumericsError", "PaddockError"};
  try {
    std::rethrow_exception(p);
  } catch (const Error& e) {
    nb::object type = nb::module_::import_("framework.errors").attr(classes[static_cast<int>(e.kind())]);
    PyErr_SetString(type.ptr(), e.what());
  }
}

nb::dict memory() {
  MemoryStats s = memory_stats();
  nb::dict d;
  d["live"] = s.live;
  d["peak"] = s.peak;
  d["cached"] = s.cached;
  return d;
}

}  // namespace
}  // namespace paddock

NB_MODULE(_core, m) {
  using namespace paddock;
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);
  bind_array(m);
  bind_files(m);
  bind_ops(m);
  bind_pictures(m);
  bind_python_op(m);
  bind_program(m);
  bind_reader(m);
  bind_record(m);
  bind_snapshot(m);
  bind_table(m);
  m.def("available_cores", &available_cores, nb::arg("root") = "");
  m.def("quota_cores", &quota_cores);
  m.def("last_cache_bytes", &last_cache_bytes, nb::arg("root") = "");
  m.def("num_threads", &num_threads);
  m.def("set_num_threads", &set_num_threads);
  m.def("flushes_subnormals", &flushes_subnormals, "What `set_flush_subnormals` was told last.");
  m.def("set_flush_subnormals", &set_flush_subnormals, nb::arg("on"),
        "Whether kernels take subnormal numbers (below 1.2e-38 in float32, 2.2e-308 in float64) for zero. Some "
        "processors take up to fifty times as long for them. Off at the start; runs of `paddock train` set it.");
  m.def("supported_isas", &supported_isas);
  m.def("active_isa", &active_isa);
  m.def("use_isa", &use_isa);
  m.def("memory_stats", &memory);
  m.def("reset_peak_memory", &reset_peak_memory);
  m.def("release_cached_memory", &release_cached_memory);
  m.def("set_cached_memory_limit", &set_cached_memory_limit, nb::arg("bytes"),
        "Bounds the bytes of freed memory that wait for reuse. By default, what is live and what waits are together at "
        "most 64 MiB more than twice the most bytes that were ever live at once.");
  m.def(
      "philox4x32",
      [](std::vector<uint32_t> key, std::vector<uint32_t> counter) {
        auto r = philox4x32({key.at(0), key.at(1)}, {counter.at(0), counter.at(1), counter.at(2), counter.at(3)});
        return std::vector<uint32_t>(r.begin(), r.end());
      },
      "One block of the generator, for its known-answer test.");
  use_isa(supported_isas().back());
}
