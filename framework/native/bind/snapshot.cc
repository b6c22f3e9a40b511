// Published tables in Python.
#include "table/snapshot.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/convert.h"

namespace paddock {
namespace {

using table::RowType;
using table::Snapshot;
using table::SnapshotFile;

constexpr int64_t kReleaseKeys = 256;  // fewer are done before another thread could take the GIL

RowType row_type(const std::string& dtype) {
  if (dtype == "float32") return RowType::kFloat32;
  if (dtype == "float16") return RowType::kFloat16;
  if (dtype == "int8") return RowType::kInt8;
  fail(ErrorKind::kAttribute, "snapshot: dtype is '", dtype, "' but must be float32, float16 or int8");
}

void expect(const Tensor& t, DType dtype, int rank, const char* what) {
  if (t.dtype() != dtype || t.shape().rank() != rank)
    fail(ErrorKind::kShape, "snapshot: ", what, " are ", t.dtype(), " ", t.shape(), " but must be ", dtype, " with ",
         rank, " axes");
}

nb::tuple lookup(const Snapshot& s, const Tensor& keys) {
  if (keys.dtype() != DType::kI64) fail(ErrorKind::kDType, "snapshot: keys are ", keys.dtype(), " but must be int64");
  Shape shape = keys.shape();
  shape.push_back(s.dim());
  Tensor out(TensorType{shape, DType::kF32});
  int64_t missed;
  {
    MaybeReleaseGil release(keys.numel() > kReleaseKeys);
    missed = s.lookup(keys.data<int64_t>(), keys.numel(), out.data<float>());
  }
  return nb::make_tuple(out, missed);
}

}  // namespace

void bind_snapshot(nb::module_& m) {
  nb::class_<SnapshotFile>(m, "SnapshotFile", "A mapped file of a published table.")
      .def("__init__", [](SnapshotFile* self, const std::string& path, int64_t index_at, int64_t slots, int64_t rows_at,
                          int64_t rows, int64_t dim, const std::string& dtype) {
        new (self) SnapshotFile(path, index_at, slots, rows_at, rows, dim, row_type(dtype));
      });
  nb::class_<Snapshot>(m, "Snapshot", "Mapped files that answer together, the newest first.")
      .def(nb::init<std::vector<std::shared_ptr<SnapshotFile>>>())
      .def("lookup", &lookup, "(rows, how many keys had none).")
      .def_prop_ro("lost", &Snapshot::lost, "Whether a file was cut, or its disk failed, since it was mapped.");
  m.def("snapshot_row_bytes",
        [](const std::string& dtype, int64_t dim) { return table::row_bytes(row_type(dtype), dim); });
  m.def("pack_rows", [](const Tensor& values, const std::string& dtype) {
    expect(values, DType::kF32, 2, "values");
    const RowType type = row_type(dtype);
    nb::gil_scoped_release release;
    return table::pack_rows(values, type);
  });
  m.def("pack_index", [](const Tensor& keys, const Tensor& removed) {
    expect(keys, DType::kI64, 1, "keys");
    expect(removed, DType::kI64, 1, "removed keys");
    nb::gil_scoped_release release;
    return table::pack_index(keys.data<int64_t>(), keys.numel(), removed.data<int64_t>(), removed.numel());
  });
}

}  // namespace paddock
