// The reader of click logs in Python: a schema, rows of a text or of columns, and batches of rows.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "bind/convert.h"
#include "reader/columns.h"
#include "reader/row_start.h"
#include "reader/rows.h"
#include "reader/xxh64.h"

namespace paddock {
namespace {

using reader::LogRows;
using reader::LogSchema;

using Longs = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
T get(const nb::dict& fields, const char* name) {
  return nb::cast<T>(fields[name]);
}

char letter(const nb::dict& fields, const char* name) {
  auto text = get<std::string>(fields, name);
  return text.empty() ? '\0' : text[0];
}

reader::SparseField sparse_from(const nb::dict& d) {
  reader::SparseField f;
  f.column = get<int>(d, "column");
  f.place = get<int>(d, "place");
  f.slot = get<uint64_t>(d, "slot");
  auto bucket = get<std::string>(d, "bucket");
  f.bucket = bucket == "log_square" ? reader::Bucket::kLogSquare
             : bucket == "hour"     ? reader::Bucket::kHour
             : bucket == "weekday"  ? reader::Bucket::kWeekday
                                    : reader::Bucket::kNone;
  f.members = get<std::vector<int>>(d, "members");
  return f;
}

reader::RaggedField ragged_from(const nb::dict& d) {
  reader::RaggedField f;
  f.column = get<int>(d, "column");
  f.count = get<int>(d, "count");
  f.slot = get<uint64_t>(d, "slot");
  f.separator = get<std::string>(d, "separator");
  f.max_length = get<int64_t>(d, "max_length");
  f.keep_last = get<std::string>(d, "keep") == "last";
  f.along = get<int>(d, "along");
  return f;
}

reader::DenseField dense_from(const nb::dict& d) {
  reader::DenseField f;
  f.column = get<int>(d, "column");
  f.place = get<int>(d, "place");
  auto transform = get<std::string>(d, "transform");
  f.scaling = transform == "none"  ? reader::Scale::kNone
              : transform == "log" ? reader::Scale::kLog
                                   : reader::Scale::kCentered;
  f.center = get<double>(d, "center");
  f.scale = get<double>(d, "scale");
  return f;
}

reader::LabelField label_from(const nb::dict& d) {
  reader::LabelField f;
  f.column = get<int>(d, "column");
  f.number = get<bool>(d, "number");
  f.at_least = get<std::optional<double>>(d, "at_least");
  f.positive = get<std::vector<std::string>>(d, "positive");
  return f;
}

reader::Written written_from(const nb::dict& d) {
  reader::Written w;
  w.column = get<int>(d, "column");
  w.decimal = letter(d, "decimal");
  w.thousands = get<std::string>(d, "thousands");
  w.percent = get<bool>(d, "percent");
  w.currency = get<std::string>(d, "currency");
  auto date = get<std::string>(d, "date");
  w.date = date == "YMD"   ? reader::DateOrder::kYmd
           : date == "DMY" ? reader::DateOrder::kDmy
           : date == "MDY" ? reader::DateOrder::kMdy
                           : reader::DateOrder::kNone;
  return w;
}

template <class Field>
std::vector<Field> each(const nb::dict& d, const char* name, Field (*make)(const nb::dict&)) {
  std::vector<Field> fields;
  for (nb::handle h : nb::list(d[name])) fields.push_back(make(nb::cast<nb::dict>(h)));
  return fields;
}

std::shared_ptr<LogSchema> schema_from(const nb::dict& d) {
  auto s = std::make_shared<LogSchema>();
  s->delimiter = letter(d, "delimiter");
  s->quote = letter(d, "quote");
  s->newlines = get<bool>(d, "newlines");
  s->strip = get<bool>(d, "strip");
  s->utf8 = get<std::string>(d, "encoding") == "utf-8";
  s->line_bytes = get<int64_t>(d, "line_bytes");
  s->key_texts = get<std::vector<std::string>>(d, "columns");
  s->columns = static_cast<int>(s->key_texts.size());
  s->missing = get<std::vector<std::string>>(d, "missing");
  s->slots = get<std::string>(d, "kind") == "slot";
  s->sign_first = get<std::string>(d, "order") == "sign:slot";
  s->head = get<int>(d, "head");
  s->sparse = each(d, "sparse", sparse_from);
  s->ragged = each(d, "ragged", ragged_from);
  s->dense = each(d, "dense", dense_from);
  s->labels = each(d, "labels", label_from);
  s->written = each(d, "written", written_from);
  s->labels_optional = get<bool>(d, "labels_optional");
  if (get<std::string>(d, "missing_numbers") == "nan") s->missing_number = NAN;
  s->weight = get<int>(d, "weight");
  s->group = get<int>(d, "group");
  s->time = get<int>(d, "time");
  s->check();
  return s;
}

// A NumPy view that keeps `self` alive.
template <class T>
nb::object view(nb::handle self, const reader::Buffer<T>& values, std::vector<size_t> shape) {
  return nb::cast(nb::ndarray<nb::numpy, T>(const_cast<T*>(values.data()), shape.size(), shape.data(), self));
}

nb::list arrays(nb::handle self) {
  const LogRows& r = nb::cast<const LogRows&>(self);
  const LogSchema& s = *r.schema;
  auto n = static_cast<size_t>(r.count);
  nb::object none = nb::none();
  nb::list out;
  out.append(view(self, r.sparse, {n, s.sparse.size()}));
  out.append(view(self, r.dense, {n, s.dense.size()}));
  out.append(view(self, r.labels, {n, s.labels.size()}));
  out.append(s.weight < 0 ? none : view(self, r.weight, {n}));
  out.append(s.group < 0 ? none : view(self, r.group, {n}));
  out.append(s.time < 0 ? none : view(self, r.time, {n}));
  for (const reader::RaggedColumn& c : r.ragged) {
    out.append(view(self, c.values, {static_cast<size_t>(c.offsets.data()[n])}));
    out.append(view(self, c.offsets, {n + 1}));
  }
  return out;
}

nb::dict counts(const LogRows& r) {
  nb::dict d;
  for (int i = 0; i < reader::kFaultKinds; ++i)
    if (r.faults[i]) d[reader::kFaultNames[i]] = r.faults[i];
  return d;
}

nb::list shown(const LogRows& r) {
  nb::list list;
  for (const reader::Fault& f : r.shown)
    list.append(nb::make_tuple(reader::kFaultNames[static_cast<int>(f.kind)], f.column, f.count, f.line, f.offset,
                               nb::bytes(f.text.data(), f.text.size())));
  return list;
}

std::shared_ptr<LogRows> parse(std::shared_ptr<const LogSchema> schema, nb::bytes data, int64_t begin, int64_t end) {
  if (begin < 0 || begin > end || static_cast<size_t>(end) > data.size())
    fail(ErrorKind::kAttribute, "parse_log: bytes ", begin, " to ", end, " of ", data.size());
  std::string_view text(data.c_str() + begin, static_cast<size_t>(end - begin));
  nb::gil_scoped_release release;
  return reader::parse_text(std::move(schema), text);
}

int64_t row_start(const LogSchema& schema, nb::bytes data, int64_t begin, int64_t at_least) {
  if (begin < 0 || static_cast<size_t>(begin) > data.size())
    fail(ErrorKind::kAttribute, "log_row_start: byte ", begin, " of ", data.size());
  std::string_view text(data.c_str(), data.size());
  nb::gil_scoped_release release;
  return static_cast<int64_t>(
      reader::row_start(schema, text, static_cast<size_t>(begin), static_cast<size_t>(std::max(begin, at_least))));
}

template <class Array, class T = std::remove_cv_t<typename Array::Scalar>>
std::span<const T> span_of(nb::handle array) {
  if (array.is_none()) return {};
  auto a = nb::cast<Array>(array);  // its memory is the caller's tuple's
  return {a.data(), a.shape(0)};
}

std::shared_ptr<LogRows> parse_columns(std::shared_ptr<const LogSchema> schema, nb::list columns, int64_t rows) {
  std::vector<reader::TextColumn> native;
  for (nb::handle h : columns) {
    auto t = nb::cast<nb::tuple>(h);
    auto data = span_of<Bytes>(t[0]);
    native.push_back({{reinterpret_cast<const char*>(data.data()), data.size()},
                      span_of<Longs>(t[1]),
                      span_of<Bytes>(t[2]),
                      span_of<Longs>(t[3])});
  }
  nb::gil_scoped_release release;
  return reader::parse_columns(std::move(schema), native, rows);
}

// Texts of Python laid end to end, or lists of them.
struct OwnedColumn {
  std::string data;
  std::vector<int64_t> offsets{0}, lists;

  // Text that is no Unicode is taken as the bytes that a file had there (PEP 383), or as UTF-8 has it.
  void add(PyObject* text) {
    Py_ssize_t size = 0;
    if (const char* utf8 = PyUnicode_AsUTF8AndSize(text, &size)) {
      data.append(utf8, static_cast<size_t>(size));
    } else {
      if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) throw nb::python_error();
      PyErr_Clear();
      PyObject* bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
      if (bytes == nullptr) {
        PyErr_Clear();
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
      }
      nb::bytes held = nb::steal<nb::bytes>(bytes);
      if (!held.is_valid()) throw nb::python_error();
      data.append(held.c_str(), held.size());
    }
    offsets.push_back(static_cast<int64_t>(data.size()));
  }

  void add_list(nb::handle texts) {
    if (lists.empty()) lists.push_back(0);
    for (nb::handle text : texts) add(text.ptr());
    lists.push_back(static_cast<int64_t>(offsets.size()) - 1);
  }

  reader::TextColumn view() const { return {data, offsets, {}, lists}; }
};

std::shared_ptr<LogRows> parse_cells(std::shared_ptr<const LogSchema> schema, nb::list columns, int64_t rows) {
  std::vector<OwnedColumn> owned(columns.size());
  for (size_t i = 0; i < owned.size(); ++i)
    for (nb::handle cell : columns[i]) {
      if (PyUnicode_Check(cell.ptr()))
        owned[i].add(cell.ptr());
      else
        owned[i].add_list(cell);
    }
  std::vector<reader::TextColumn> native;
  for (const OwnedColumn& column : owned) native.push_back(column.view());
  nb::gil_scoped_release release;
  return reader::parse_columns(std::move(schema), native, rows, static_cast<size_t>(rows));
}

std::shared_ptr<LogRows> gather(const std::vector<std::shared_ptr<LogRows>>& parts, Places part, Places row) {
  if (part.shape(0) != row.shape(0)) fail(ErrorKind::kAttribute, "gather_log: parts and rows differ in number");
  std::vector<const LogRows*> pointers;
  for (const auto& p : parts) pointers.push_back(p.get());
  nb::gil_scoped_release release;
  return reader::gather(pointers, part.data(), row.data(), static_cast<int64_t>(part.shape(0)));
}

}  // namespace

void bind_reader(nb::module_& m) {
  nb::class_<LogSchema>(m, "LogSchema", "What is read from a row of a click log.");
  nb::class_<LogRows>(m, "LogRows", "Rows of a click log as columns.")
      .def_ro("count", &LogRows::count)
      .def_ro("lines", &LogRows::lines)
      .def_ro("blank", &LogRows::blank)
      .def_ro("backwards", &LogRows::backwards)
      .def_ro("first_backwards", &LogRows::first_backwards)
      .def_ro("last_time", &LogRows::last_time)
      .def_prop_ro("faults", &counts, "Bad rows by kind.")
      .def_prop_ro("shown", &shown, "The first bad rows: (kind, column, count, line, byte, text).");
  m.def("log_schema", &schema_from, nb::arg("fields"), "A LogSchema of a complete mapping; see framework.data.logs.");
  m.def("parse_log", &parse, nb::arg("schema"), nb::arg("data"), nb::arg("begin"), nb::arg("end"),
        "Rows of the whole lines data[begin:end].");
  m.def("log_row_start", &row_start, nb::arg("schema"), nb::arg("data"), nb::arg("begin"), nb::arg("at_least"),
        "The first row that begins at or behind a byte; where the data do not tell, the last one. One begins at "
        "`begin`.");
  m.def("parse_log_columns", &parse_columns, nb::arg("schema"), nb::arg("columns"), nb::arg("rows"),
        "Rows of columns (data uint8, offsets int64, valid uint8 or None, lists int64 or None).");
  m.def("parse_log_cells", &parse_cells, nb::arg("schema"), nb::arg("columns"), nb::arg("rows"),
        "Rows of columns of texts, or of lists of texts. `shown` has all bad rows.");
  m.def("gather_log", &gather, nb::arg("parts"), nb::arg("part").noconvert(), nb::arg("row").noconvert(),
        "Rows row[i] of parts[part[i]].");
  m.def("log_arrays", &arrays, nb::arg("rows"),
        "NumPy views: sparse [N, F], dense [N, D], labels [N, L], weight, group, time or None, then values and offsets "
        "of each multi-valued feature.");
  m.def("hash64", [](nb::bytes data) { return reader::hash64(data.c_str(), data.size()); }, "XXH64 with seed 0.");
}

}  // namespace paddock
