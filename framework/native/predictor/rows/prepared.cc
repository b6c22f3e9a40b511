#include "predictor/rows/prepared.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "predictor/rows/published.h"
#include "predictor/rows/texts.h"

namespace paddock::rows {
namespace {

using predictor::Json;
using reader::FaultKind;
using Kind = Json::Kind;

[[noreturn]] void not_done(const std::string& what) {
  fail(ErrorKind::kNotSupported, "the export's reader of rows has ", what, ", which this library does not do");
}

const Json& member(const Json& of, const char* name, Kind kind) {
  const Json* found = of.find(name);
  if (!found || !found->is(kind)) not_done(cat("a '", name, "' that is ", found ? kind_name(found->kind) : "missing"));
  return *found;
}

std::string text_at(const Json& of, const char* name) { return std::string(member(of, name, Kind::kString).string()); }
bool truth_at(const Json& of, const char* name) { return member(of, name, Kind::kBool).truth; }
char letter_at(const Json& of, const char* name) {
  const std::string text = text_at(of, name);
  return text.empty() ? '\0' : text[0];
}

int64_t whole_at(const Json& of, const char* name) {
  const int64_t found = member(of, name, Kind::kInt).whole;
  if (found < -1 || found > 1 << 30) not_done(cat("the number ", found, " as '", name, "'"));
  return found;
}
int place_at(const Json& of, const char* name) { return static_cast<int>(whole_at(of, name)); }

double real_at(const Json& of, const char* name) {
  const Json* found = of.find(name);
  if (found && found->is(Kind::kInt)) return static_cast<double>(found->whole);
  return member(of, name, Kind::kFloat).real;
}

std::vector<std::string> texts_at(const Json& of, const char* name) {
  const Json& list = member(of, name, Kind::kArray);
  std::vector<std::string> texts;
  for (const Json* item = list.items_begin(); item != list.items_end(); ++item) {
    if (!item->is(Kind::kString)) not_done(cat("a '", name, "' that is no list of texts"));
    texts.emplace_back(item->string());
  }
  return texts;
}

template <class Field, class Make>
std::vector<Field> each(const Json& of, const char* name, Make make) {
  const Json& list = member(of, name, Kind::kArray);
  std::vector<Field> fields;
  for (const Json* item = list.items_begin(); item != list.items_end(); ++item) {
    if (!item->is(Kind::kObject)) not_done(cat("a '", name, "' that is no list of objects"));
    fields.push_back(make(*item));
  }
  return fields;
}

// The texts of a closed choice to the values that stand for them.
template <class T>
T chosen(const Json& of, const char* name, std::initializer_list<std::pair<const char*, T>> choices) {
  const std::string text = text_at(of, name);
  for (const auto& [known, value] : choices)
    if (text == known) return value;
  not_done(cat("the ", name, " '", text.substr(0, 40), "'"));
}

reader::SparseField sparse_of(const Json& j) {
  using reader::Bucket;
  reader::SparseField f;
  f.column = place_at(j, "column");
  f.place = place_at(j, "place");
  f.slot = static_cast<uint64_t>(whole_at(j, "slot"));
  f.bucket = chosen<Bucket>(j, "bucket",
                            {{"", Bucket::kNone},
                             {"log_square", Bucket::kLogSquare},
                             {"hour", Bucket::kHour},
                             {"weekday", Bucket::kWeekday}});
  const Json& members = member(j, "members", Kind::kArray);
  for (const Json* item = members.items_begin(); item != members.items_end(); ++item) {
    if (!item->is(Kind::kInt) || item->whole < 0 || item->whole > 1 << 20) not_done("a cross of no places");
    f.members.push_back(static_cast<int>(item->whole));
  }
  return f;
}

reader::RaggedField ragged_of(const Json& j) {
  reader::RaggedField f;
  f.column = place_at(j, "column");
  f.count = place_at(j, "count");
  if (f.count != 1) not_done("values of one feature in columns side by side");
  f.slot = static_cast<uint64_t>(whole_at(j, "slot"));
  f.separator = text_at(j, "separator");
  f.max_length = whole_at(j, "max_length");
  f.keep_last = chosen<bool>(j, "keep", {{"last", true}, {"first", false}});
  f.along = place_at(j, "along");
  return f;
}

reader::DenseField dense_of(const Json& j) {
  using reader::Scale;
  reader::DenseField f;
  f.column = place_at(j, "column");
  f.place = place_at(j, "place");
  f.scaling = chosen<Scale>(
      j, "transform",
      {{"none", Scale::kNone}, {"log", Scale::kLog}, {"min_max", Scale::kCentered}, {"standard", Scale::kCentered}});
  f.center = real_at(j, "center");
  f.scale = real_at(j, "scale");
  return f;
}

reader::Written written_of(const Json& j) {
  using reader::DateOrder;
  reader::Written w;
  w.column = place_at(j, "column");
  w.decimal = letter_at(j, "decimal");
  w.thousands = text_at(j, "thousands");
  w.percent = truth_at(j, "percent");
  w.currency = text_at(j, "currency");
  w.date = chosen<DateOrder>(
      j, "date",
      {{"", DateOrder::kNone}, {"YMD", DateOrder::kYmd}, {"DMY", DateOrder::kDmy}, {"MDY", DateOrder::kMdy}});
  return w;
}

const Json& processor_of(const Json& metadata) {
  const Json* found = metadata.find("processor");
  const Json* reader = found ? found->find("reader") : nullptr;
  if (!reader || !reader->is(Kind::kObject))
    fail(ErrorKind::kNotSupported,
         "the export states no reader of rows (/processor/reader); models of click logs do, if their logs are tables, "
         "and were exported by this version");
  return *found;
}

std::shared_ptr<const reader::LogSchema> schema_of(const Json& j) {
  auto s = std::make_shared<reader::LogSchema>();
  s->slots = chosen<bool>(j, "kind", {{"csv", false}, {"parquet", false}, {"slot", true}});
  if (s->slots) {
    s->sign_first = chosen<bool>(j, "order", {{"slot:sign", false}, {"sign:slot", true}});
    s->head = place_at(j, "head");
  }
  s->strip = truth_at(j, "strip");
  s->utf8 = chosen<bool>(j, "encoding", {{"utf-8", true}, {"bytes", false}});
  s->key_texts = texts_at(j, "columns");
  s->columns = static_cast<int>(s->key_texts.size());
  s->missing = texts_at(j, "missing");
  s->sparse = each<reader::SparseField>(j, "sparse", sparse_of);
  s->ragged = each<reader::RaggedField>(j, "ragged", ragged_of);
  s->dense = each<reader::DenseField>(j, "dense", dense_of);
  s->written = each<reader::Written>(j, "written", written_of);
  s->missing_number = chosen<float>(j, "missing_numbers", {{"zero", 0.f}});
  s->check();
  return s;
}

// How many values a column may have.
int most_of(const reader::LogSchema& schema, int column) {
  int most = 0;
  for (const auto& f : schema.sparse)
    if (f.column == column) most = std::max(most, f.place + 1);
  for (const auto& f : schema.dense)
    if (f.column == column) most = std::max(most, f.place + 1);
  return std::max(most, 1);
}

// Why a row cannot be used; the words of framework/data/logs/reasons.py, but for what depends on the form of a number.
std::string reason(const reader::Fault& fault, const RowPlan& plan) {
  const std::string column = fault.column >= 0 && static_cast<size_t>(fault.column) < plan.columns.size()
                                 ? "'" + plan.columns[static_cast<size_t>(fault.column)] + "'"
                                 : "it";
  switch (fault.kind) {
    case FaultKind::kNumber:
      return cat(column, " is '", fault.text, "', which is no number of the form that the model's log has");
    case FaultKind::kSign:
      return cat(column, " is '", fault.text, "', which is no whole number below 2^64");
    case FaultKind::kValues:
      return cat(column, " has ", fault.count, " values, and the schema takes ", most_of(*plan.schema, fault.column));
    case FaultKind::kAlong:
      return cat(column, " has ", fault.count, " values, not as many as the sequence it goes along");
    case FaultKind::kText:
      return "is not UTF-8";
    default:
      return cat(column, " cannot be read (", reader::kFaultNames[static_cast<int>(fault.kind)], ")");
  }
}

}  // namespace

std::vector<std::string> columns_of(const Json& metadata) {
  const Json& reader = *processor_of(metadata).find("reader");
  if (text_at(reader, "kind") == "slot") return {};
  return texts_at(reader, "columns");
}

RowPlan row_plan(const Json& metadata, const std::string& folder, const predictor::Limits& limits) {
  const Json& processor = processor_of(metadata);
  const Json& reader = *processor.find("reader");
  RowPlan plan{schema_of(reader), texts_at(reader, "columns"), {}, nullptr, limits.elements};
  const Json& ragged = member(reader, "ragged", Kind::kArray);
  for (const Json* item = ragged.items_begin(); item != ragged.items_end(); ++item)
    plan.ragged.push_back(text_at(*item, "name"));
  plan.table = open_published(folder, text_at(processor, "rows_key"), limits);
  return plan;
}

PreparedRows::PreparedRows(const RowPlan& plan, const std::vector<std::string_view>& cells, int64_t count) {
  const bool lines = plan.takes_lines();
  const std::vector<std::string> head(plan.columns.begin(), plan.columns.begin() + (lines ? plan.schema->head : 0));
  const RowTexts texts = lines ? RowTexts(*plan.schema, head, cells) : RowTexts(plan.columns.size(), cells);
  const auto rows = reader::parse_columns(plan.schema, texts.columns(), count);
  if (!rows->shown.empty())
    fail(ErrorKind::kShape, lines ? "line " : "row ", rows->shown[0].line, ": ", reason(rows->shown[0], plan));

  const int64_t dim = plan.table->dim();
  const auto looked_up = [&](const int64_t* signs, const Shape& shape) {
    int64_t elements = dim;
    for (int i = 0; i < shape.rank(); ++i)
      if (__builtin_mul_overflow(elements, shape[i], &elements) || elements > plan.elements)
        fail(ErrorKind::kShape, count, " rows are too many at once: their tensors have more than ", plan.elements,
             " elements (option elements)");
    Shape whole = shape;
    whole.push_back(dim);
    Tensor found(TensorType{whole, DType::kF32});
    plan.table->lookup(signs, found.numel() / dim, found.data<float>());
    return found;
  };
  const auto copied = [&](const auto* values, const TensorType& type) {
    Tensor to(type);
    if (to.bytes()) std::memcpy(to.raw(), values, static_cast<size_t>(to.bytes()));
    return to;
  };
  inputs_["sparse"] = looked_up(rows->sparse.data(), Shape{count, static_cast<int64_t>(plan.schema->sparse.size())});
  inputs_["dense"] =
      copied(rows->dense.data(), {Shape{count, static_cast<int64_t>(plan.schema->dense.size())}, DType::kF32});
  for (size_t i = 0; i < plan.ragged.size(); ++i) {
    const reader::RaggedColumn& c = rows->ragged[i];
    inputs_[plan.ragged[i]] = looked_up(c.values.data(), Shape{c.offsets.data()[count]});
    inputs_[plan.ragged[i] + ".offsets"] = copied(c.offsets.data(), {Shape{count + 1}, DType::kI64});
  }
}

const Tensor& PreparedRows::input(const std::string& name) const {
  const auto found = inputs_.find(name);
  if (found == inputs_.end()) fail(ErrorKind::kNotSupported, "rows do not give the input '", name, "' of this model");
  return found->second;
}

}  // namespace paddock::rows
