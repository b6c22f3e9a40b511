// Tables in Python. Keys and rows come and go as Arrays; what takes long releases the GIL.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bind/convert.h"
#include "table/ops.h"

namespace paddock {
namespace {

using table::Table;
using table::TableConfig;
using table::TableOp;
using Release = nb::gil_scoped_release;

constexpr int64_t kReleaseKeys = 256;  // fewer are done before another thread could take the GIL

template <class T>
T get(nb::dict d, const char* name) {
  return nb::cast<T>(d[name]);
}

TableConfig config_of(nb::dict d) {
  TableConfig c;
  c.name = get<std::string>(d, "name");
  c.dim = get<int64_t>(d, "dim");
  c.rule.kind = static_cast<table::RuleKind>(get<int>(d, "rule"));
  c.rule.beta1 = get<double>(d, "beta1");
  c.rule.beta2 = get<double>(d, "beta2");
  c.rule.eps = get<double>(d, "eps");
  c.rule.l2 = get<double>(d, "l2");
  c.rule.l1 = get<double>(d, "l1");
  c.rule.beta = get<double>(d, "beta");
  c.rule.initial = get<double>(d, "initial");
  for (nb::handle h : nb::list(d["init"])) {
    auto part = nb::cast<nb::tuple>(h);
    c.init.push_back(
        {nb::cast<int64_t>(part[0]), static_cast<table::InitKind>(nb::cast<int>(part[1])), nb::cast<float>(part[2])});
  }
  c.admission.kind = static_cast<table::AdmissionKind>(get<int>(d, "admission"));
  c.admission.threshold = get<double>(d, "admission_threshold");
  c.eviction.decay = get<double>(d, "decay");
  c.eviction.least_score = get<double>(d, "least_score");
  c.eviction.most_unseen = get<int64_t>(d, "most_unseen");
  c.show_weight = get<double>(d, "show_weight");
  c.click_weight = get<double>(d, "click_weight");
  c.most_rows = get<int64_t>(d, "most_rows");
  c.when_full = static_cast<table::FullPolicy>(get<int>(d, "when_full"));
  c.seed = get<uint64_t>(d, "seed");
  c.bucket_bits = get<int>(d, "bucket_bits");
  return c;
}

// The data of an array of `count` elements a key.
template <class T>
const T* data_of(const Tensor& t, DType dtype, int64_t count, const char* what) {
  if (t.dtype() != dtype || t.numel() != count)
    fail(ErrorKind::kShape, "table: ", what, " are ", t.dtype(), " ", t.shape(), " but must be ", dtype, " with ",
         count, " elements");
  return t.data<T>();
}

const int64_t* keys_of(const Tensor& t) { return data_of<int64_t>(t, DType::kI64, t.numel(), "keys"); }

Tensor lookup(Table& t, const Tensor& keys, bool train) {
  const int64_t* k = keys_of(keys);
  Shape shape = keys.shape();
  shape.push_back(t.config().dim);
  Tensor out(TensorType{shape, DType::kF32});
  MaybeReleaseGil release(keys.numel() > kReleaseKeys);
  t.lookup(k, keys.numel(), out.data<float>(), train);
  return out;
}

nb::dict stats(Table& t) {
  table::Stats s;
  {
    Release release;
    s = t.stats();
  }
  nb::dict d;
  d["rows"] = s.rows;
  d["candidates"] = s.candidates;
  d["row_bytes"] = s.row_bytes;
  d["index_bytes"] = s.index_bytes;
  d["admitted"] = s.admitted;
  d["rejected"] = s.rejected;
  d["evicted"] = s.evicted;
  d["missed"] = s.missed;
  d["steps"] = s.steps;
  return d;
}

template <class T>
Tensor array_of(const std::vector<T>& values, DType dtype) {
  Tensor t(TensorType{{static_cast<int64_t>(values.size())}, dtype});
  if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size() * sizeof(T));
  return t;
}

nb::tuple read_rows(Table& t, int begin, int end, uint32_t version, bool settled, bool values_only) {
  table::Rows rows;
  {
    Release release;
    rows = t.read_rows(begin, end, version, settled, values_only);
  }
  return nb::make_tuple(rows.keys, rows.values, rows.states, rows.counts, rows.numbers);
}

void write_rows(Table& t, const Tensor& keys, const Tensor& values, const Tensor& states, const Tensor& counts,
                const Tensor& numbers) {
  const int64_t n = keys.numel();
  const int64_t* k = keys_of(keys);
  const auto* v = data_of<float>(values, DType::kF32, n * t.layout().dim, "values");
  const auto* s = data_of<float>(states, DType::kF32, n * t.layout().state, "states");
  const auto* c = data_of<float>(counts, DType::kF32, n * 2, "counts");
  const auto* m = data_of<int32_t>(numbers, DType::kI32, n * 3, "numbers");
  Release release;
  t.write_rows(k, n, v, s, c, m);
}

Tensor counts(Table& t, const Tensor& keys) {
  Tensor out(TensorType{{keys.numel(), 4}, DType::kF32});
  t.counts(keys_of(keys), keys.numel(), out.data<float>());
  return out;
}

int64_t set_counts(Table& t, const Tensor& keys, const Tensor& shows, const Tensor& clicks) {
  const int64_t n = keys.numel();
  return t.set_counts(keys_of(keys), n, data_of<float>(shows, DType::kF32, n, "shows"),
                      data_of<float>(clicks, DType::kF32, n, "clicks"));
}

// A step by unique keys, which occurred `shows` times and were clicked `clicks` times.
void push(Table& t, const Tensor& keys, const Tensor& grads, const Tensor& shows, const Tensor& clicks, double lr) {
  const int64_t n = keys.numel();
  const table::GradientPart part{keys_of(keys),
                                 n,
                                 data_of<float>(grads, DType::kF32, n * t.layout().dim, "gradients"),
                                 data_of<float>(clicks, DType::kF32, n, "clicks"),
                                 n,
                                 data_of<float>(shows, DType::kF32, n, "shows")};
  if (!n) return;
  Release release;
  t.update({&part, 1}, lr, 1.0);
}

// The different keys of a batch by bucket; see framework/table/remote/keys.py.
nb::tuple unique_keys(const Tensor& keys, const Tensor& clicks, int bucket_bits) {
  const int64_t n = keys.numel();
  if (clicks.dtype() != DType::kF32 || (clicks.numel() && n % clicks.numel() != 0))
    fail(ErrorKind::kShape, "unique_keys: clicks are ", clicks.dtype(), " ", clicks.shape(),
         " but must be float32, one for each of equal runs of the ", n, " keys");
  const table::GradientPart part{keys_of(keys), n, nullptr, clicks.data<float>(), clicks.numel()};
  Tensor inverse(TensorType{keys.shape(), DType::kI64});
  std::vector<int64_t> unique, starts{0};
  std::vector<float> shows, clicked;
  {
    Release release;
    const table::Batch batch({&part, 1}, 0, bucket_bits);
    table::BucketSums sums;
    for (int b = 0; b < 1 << bucket_bits; ++b) {
      batch.sum(b, sums);
      const int64_t first = starts.back();
      for (const table::Occurrence& o : batch.order().occurrences(b))
        inverse.data<int64_t>()[o.place] = first + o.unique;
      for (const table::UniqueKey& u : batch.order().uniques(b)) {
        unique.push_back(static_cast<int64_t>(u.key));
        shows.push_back(static_cast<float>(u.count));
      }
      for (double c : sums.clicks) clicked.push_back(static_cast<float>(c));
      clicked.resize(unique.size());
      starts.push_back(static_cast<int64_t>(unique.size()));
    }
  }
  return nb::make_tuple(array_of(unique, DType::kI64), inverse, array_of(shows, DType::kF32),
                        array_of(clicked, DType::kF32), array_of(starts, DType::kI64));
}

}  // namespace

void bind_table(nb::module_& m) {
  nb::class_<Table>(m, "Table", "Rows by 64-bit keys; see framework.table.")
      .def("__init__", [](Table* self, nb::dict config) { new (self) Table(config_of(config)); })
      .def_prop_ro("dim", [](const Table& t) { return t.layout().dim; })
      .def_prop_ro("state_words", [](const Table& t) { return t.layout().state; })
      .def_prop_ro("row_bytes", [](const Table& t) { return t.layout().stride; })
      .def_prop_ro("buckets", &Table::buckets)
      .def("lookup", &lookup)
      .def("stats", &stats)
      .def("rows_by_slot", [](const Table& t) { return array_of(t.rows_by_slot(), DType::kI64); })
      .def("shrink", &Table::shrink, nb::arg("first"), nb::arg("last"), nb::call_guard<Release>())
      .def("push", &push)
      .def("age", &Table::age, nb::call_guard<Release>())
      .def("forget", [](Table& t, const Tensor& keys) { return t.forget(keys_of(keys), keys.numel()); })
      .def("counts", &counts)
      .def("set_counts", &set_counts)
      .def("cut", &Table::cut)
      .def("read_rows", &read_rows, nb::arg("begin"), nb::arg("end"), nb::arg("version"), nb::arg("settled"),
           nb::arg("values_only") = false)
      .def("read_candidates",
           [](Table& t, int begin, int end) {
             const table::Candidates c = t.read_candidates(begin, end);
             return nb::make_tuple(array_of(c.keys, DType::kI64), array_of(c.waiting, DType::kI32));
           })
      .def("removed", [](Table& t, uint32_t version) { return array_of(t.removed(version), DType::kI64); })
      .def("forget_removals", &Table::forget_removals)
      .def("write_rows", &write_rows)
      .def("write_candidates",
           [](Table& t, const Tensor& keys, const Tensor& waiting) {
             t.write_candidates(keys_of(keys), keys.numel(),
                                data_of<int32_t>(waiting, DType::kI32, keys.numel(), "candidates"));
           })
      .def("clear_candidates", &Table::clear_candidates)
      .def("clear", &Table::clear)
      .def("rates", [](Table& t) { return array_of(t.rates(), DType::kF32); })
      .def("set_rates", [](Table& t, const Tensor& rates) {
        const auto* r = data_of<float>(rates, DType::kF32, rates.numel(), "rates");
        t.set_rates({r, r + rates.numel()});
      });
  m.def("unique_keys", &unique_keys, nb::arg("keys"), nb::arg("clicks"), nb::arg("bucket_bits"));
  nb::class_<TableOp, OpDef>(m, "TableOp", "An operator of one table: gather or update.")
      .def(nb::init<const std::string&, std::shared_ptr<Table>>());
}

}  // namespace paddock
