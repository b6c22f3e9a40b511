#include "reader/writer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "reader/number.h"
#include "reader/xxh64.h"

namespace paddock::reader {
namespace {

int64_t sign_of(uint64_t slot, uint64_t hash) { return static_cast<int64_t>(slot << kHashBits | hash); }

double log_of(double x) { return std::copysign(std::log1p(std::abs(x)), x); }

// Logs of counts, which most dense features are.
constexpr int kTable = 1024;
float log_scaled(double x) {
  static const auto table = [] {
    std::array<float, kTable> t{};
    for (int i = 0; i < kTable; ++i) t[i] = static_cast<float>(log_of(i));
    return t;
  }();
  if (x >= 0 && x < kTable && x == std::floor(x)) return table[static_cast<int>(x)];
  return static_cast<float>(log_of(x));
}

float scaled(double x, const DenseField& f) {
  switch (f.scaling) {
    case Scale::kLog:
      return log_scaled(x);
    case Scale::kCentered:
      return static_cast<float>((x - f.center) / f.scale);
    default:
      return static_cast<float>(x);
  }
}

// The bucket of a number; false for one that has none.
bool log_square(double v, int64_t& bucket) {
  if (!std::isfinite(v)) return false;
  double log = v > 2 ? std::log(v) : 0;
  double found = std::floor(v > 2 ? log * log : v);
  if (std::abs(found) >= 9e15) return false;
  bucket = static_cast<int64_t>(found);
  return true;
}

constexpr int64_t kHour = 3600, kDay = 24 * kHour;

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The hour of a day, or the day of a week from Monday.
int64_t part_of(const Moment& moment, Bucket bucket) {
  int64_t day = floor_div(moment.wall, kDay);
  if (bucket == Bucket::kHour) return (moment.wall - day * kDay) / kHour;
  return day + 3 - 7 * floor_div(day + 3, 7);  // the first of 1970 was a Thursday
}

}  // namespace

RowWriter::RowWriter(LogRows& rows, int64_t expected) : schema_(*rows.schema), rows_(rows) {
  reserve(std::max<int64_t>(expected, 1));
  for (RaggedColumn& r : rows_.ragged) r.offsets.data()[0] = 0;
  places_.assign(static_cast<size_t>(schema_.columns), -1);
  auto use = [&](int column, int place) {
    if (column >= 0) places_[column] = std::max(places_[column], place + 1);
  };
  for (const SparseField& f : schema_.sparse) use(f.column, f.place);
  for (const DenseField& f : schema_.dense) use(f.column, f.place);
  for (const LabelField& f : schema_.labels) use(f.column, 0);
  for (int column : {schema_.weight, schema_.group, schema_.time}) use(column, 0);
  for (const RaggedField& f : schema_.ragged) places_[f.column] = -1;
  if (!schema_.written.empty()) forms_.assign(static_cast<size_t>(schema_.columns), nullptr);
  for (const Written& w : schema_.written)
    if (w.column >= 0) forms_[static_cast<size_t>(w.column)] = &w;
}

void RowWriter::reserve(int64_t rows) {
  if (rows <= capacity_) return;
  capacity_ = std::max(rows, capacity_ + capacity_ / 2);
  auto n = static_cast<size_t>(capacity_);
  rows_.sparse.reserve(n * schema_.sparse.size());
  rows_.dense.reserve(n * schema_.dense.size());
  rows_.labels.reserve(n * schema_.labels.size());
  if (schema_.weight >= 0) rows_.weight.reserve(n);
  if (schema_.group >= 0) rows_.group.reserve(n);
  if (schema_.time >= 0) rows_.time.reserve(n);
  for (RaggedColumn& r : rows_.ragged) r.offsets.reserve(n + 1);
}

bool RowWriter::listed(Cell cell) const {
  return std::find(schema_.missing.begin(), schema_.missing.end(), cell) != schema_.missing.end();
}

// What follows writes behind the last row; only `add` makes it one.
std::optional<Wrong> RowWriter::add(const Cells& cells, int64_t offset) {
  reserve(rows_.count + 1);
  if (auto wrong = extra_values(cells)) return wrong;
  if (auto wrong = add_labels(cells)) return wrong;
  if (auto wrong = add_dense(cells)) return wrong;
  if (auto wrong = add_sparse(cells)) return wrong;
  if (auto wrong = add_ragged(cells)) return wrong;
  if (auto wrong = add_rest(cells, offset)) return wrong;
  ++rows_.count;
  return std::nullopt;
}

std::optional<Wrong> RowWriter::extra_values(const Cells& cells) const {
  if (!cells.begin) return std::nullopt;
  for (int c = 0; c < schema_.columns; ++c)
    if (places_[c] >= 0 && cells.count(c) > places_[c])
      return Wrong{FaultKind::kValues, c, cells.first(c)[places_[c]], cells.count(c)};
  return std::nullopt;
}

std::optional<Wrong> RowWriter::hash(Cell cell, int column, uint64_t& hash) const {
  if (!schema_.slots || column < schema_.head) {
    hash = hash52(cell.data(), cell.size());
    return std::nullopt;
  }
  uint64_t number;
  if (!parse_unsigned(cell, number)) return Wrong{FaultKind::kSign, column, cell};
  hash = hash52(reinterpret_cast<const char*>(&number), sizeof(number));
  return std::nullopt;
}

bool RowWriter::number(int column, Cell cell, double& value) {
  const Written* form = form_of(column);
  if (form == nullptr) return parse_double(cell, value);
  if (form->date == DateOrder::kNone) return plain_number(cell, *form, plain_) && parse_double(plain_, value);
  Moment moment;
  if (!parse_date(cell, form->date, moment)) return false;
  value = static_cast<double>(moment.utc()) / kDay;
  return true;
}

bool RowWriter::whole(int column, Cell cell, int64_t& value) {
  const Written* form = form_of(column);
  if (form == nullptr) return parse_whole(cell, value);
  if (form->date == DateOrder::kNone) return plain_number(cell, *form, plain_) && parse_whole(plain_, value);
  Moment moment;
  if (!parse_date(cell, form->date, moment)) return false;
  value = moment.utc();
  return true;
}

// Hash of the bucket's number as text, so that it is the sign of that text.
bool RowWriter::bucket_hash(const SparseField& f, Cell cell, uint64_t& hash) {
  int64_t bucket;
  if (f.bucket == Bucket::kLogSquare) {
    double v;
    if (!number(f.column, cell, v) || !log_square(v, bucket)) return false;
  } else {
    const Written* form = form_of(f.column);
    Moment moment;
    if (form == nullptr || !parse_date(cell, form->date, moment)) return false;
    bucket = part_of(moment, f.bucket);
  }
  char text[24];
  auto end = std::to_chars(text, text + sizeof(text), bucket).ptr;
  hash = hash52(text, static_cast<size_t>(end - text));
  return true;
}

std::optional<Wrong> RowWriter::add_sparse(const Cells& cells) {
  const size_t width = schema_.sparse.size();
  int64_t* out = rows_.sparse.data() + static_cast<size_t>(rows_.count) * width;
  for (size_t i = 0; i < width; ++i) {
    const SparseField& f = schema_.sparse[i];
    uint64_t h = 0;
    if (f.column < 0) {
      members_.clear();
      for (int m : f.members) members_.push_back(out[m]);
      h = hash52(reinterpret_cast<const char*>(members_.data()), members_.size() * sizeof(int64_t));
    } else if (Cell cell = cells.at(f.column, f.place); missing(cell)) {
      h = 0;
    } else if (f.bucket != Bucket::kNone) {
      if (!bucket_hash(f, cell, h)) return Wrong{FaultKind::kNumber, f.column, cell};
    } else if (!schema_.slots) {
      h = hash52(cell.data(), cell.size());
    } else if (auto wrong = hash(cell, f.column, h)) {
      return wrong;
    }
    out[i] = sign_of(f.slot, h);
  }
  return std::nullopt;
}

std::optional<Wrong> RowWriter::add_dense(const Cells& cells) {
  const size_t width = schema_.dense.size();
  float* out = rows_.dense.data() + static_cast<size_t>(rows_.count) * width;
  for (size_t i = 0; i < width; ++i) {
    const DenseField& f = schema_.dense[i];
    Cell cell = cells.at(f.column, f.place);
    out[i] = schema_.missing_number;
    if (missing(cell)) continue;
    double x;
    if (!number(f.column, cell, x) || !std::isfinite(static_cast<float>(x)))
      return Wrong{FaultKind::kNumber, f.column, cell};
    out[i] = scaled(x, f);
    if (!std::isfinite(out[i])) return Wrong{FaultKind::kNumber, f.column, cell};
  }
  return std::nullopt;
}

std::optional<Wrong> RowWriter::add_labels(const Cells& cells) {
  const size_t width = schema_.labels.size();
  float* out = rows_.labels.data() + static_cast<size_t>(rows_.count) * width;
  for (size_t i = 0; i < width; ++i) {
    const LabelField& f = schema_.labels[i];
    Cell cell = f.column < 0 ? Cell() : cells.at(f.column, 0);
    Wrong wrong{FaultKind::kLabel, f.column, cell};
    if (missing(cell)) {
      if (!schema_.labels_optional) return wrong;
      out[i] = NAN;
      continue;
    }
    if (!f.positive.empty()) {
      out[i] = std::find(f.positive.begin(), f.positive.end(), cell) != f.positive.end();
      continue;
    }
    double x;
    if (!number(f.column, cell, x) || !std::isfinite(x)) return wrong;
    if (f.at_least) x = x >= *f.at_least;
    if (!f.number && x != 0 && x != 1) return wrong;
    out[i] = static_cast<float>(x);
    if (!std::isfinite(out[i])) return wrong;
  }
  return std::nullopt;
}

std::optional<Wrong> RowWriter::add_rest(const Cells& cells, int64_t offset) {
  if (schema_.weight >= 0) {
    Cell cell = cells.at(schema_.weight, 0);
    double x;
    if (!number(schema_.weight, cell, x) || !(x >= 0) || !std::isfinite(static_cast<float>(x)))
      return Wrong{FaultKind::kWeight, schema_.weight, cell};
    rows_.weight.data()[rows_.count] = static_cast<float>(x);
  }
  if (schema_.group >= 0) {
    uint64_t h;
    if (auto wrong = hash(cells.at(schema_.group, 0), schema_.group, h)) return wrong;
    rows_.group.data()[rows_.count] = static_cast<int64_t>(h);
  }
  if (schema_.time >= 0) {
    Cell cell = cells.at(schema_.time, 0);
    int64_t t;
    if (!whole(schema_.time, cell, t)) return Wrong{FaultKind::kTime, schema_.time, cell};
    rows_.time.data()[rows_.count] = t;
    if (t < rows_.last_time && ++rows_.backwards == 1) rows_.first_backwards = offset;
    rows_.last_time = std::max(rows_.last_time, t);
  }
  return std::nullopt;
}

// Appends the values of a cell to `pieces_`; one of them may be missing, and keeps its place.
void RowWriter::split(Cell cell, Cell separator) {
  for (size_t begin = 0; begin <= cell.size();) {
    size_t end = std::min(cell.find(separator, begin), cell.size());
    pieces_.push_back(cell.substr(begin, end - begin));
    begin = end + separator.size();
  }
}

// The values of a feature, into `pieces_`.
void RowWriter::collect(const Cells& cells, const RaggedField& f) {
  pieces_.clear();
  const Cell* first = cells.first(f.column);
  const bool listed = cells.begin != nullptr && f.separator.empty();  // as a list: a value of it may be missing
  int count = f.count > 1 ? f.count : cells.count(f.column);
  for (int k = 0; k < count; ++k) {
    if (listed || (f.separator.empty() && !missing(first[k])))
      pieces_.push_back(first[k]);
    else if (!f.separator.empty() && !missing(first[k]))
      split(first[k], f.separator);
  }
}

std::optional<Wrong> RowWriter::add_ragged(const Cells& cells) {
  for (size_t i = 0; i < schema_.ragged.size(); ++i) {
    const RaggedField& f = schema_.ragged[i];
    RaggedColumn& out = rows_.ragged[i];
    collect(cells, f);
    size_t skip = 0;
    if (f.max_length >= 0 && pieces_.size() > static_cast<size_t>(f.max_length)) {
      size_t extra = pieces_.size() - static_cast<size_t>(f.max_length);
      if (f.keep_last)
        skip = extra;
      else
        pieces_.resize(pieces_.size() - extra);
    }
    int64_t at = out.offsets.data()[rows_.count];
    out.values.reserve(static_cast<size_t>(at) + pieces_.size() - skip);
    for (size_t k = skip; k < pieces_.size(); ++k) {
      uint64_t h = 0;
      if (!missing(pieces_[k]))
        if (auto wrong = hash(pieces_[k], f.column, h)) return wrong;
      out.values.data()[at++] = sign_of(f.slot, h);
    }
    out.offsets.data()[rows_.count + 1] = at;
    if (f.along >= 0 && at != rows_.ragged[f.along].offsets.data()[rows_.count + 1])
      return Wrong{FaultKind::kAlong, f.column, cells.at(f.column, 0), at - out.offsets.data()[rows_.count]};
  }
  return std::nullopt;
}

}  // namespace paddock::reader
