// Rows of several LogRows as one.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "reader/rows.h"

namespace paddock::reader {
namespace {

// Rows that follow each other in their part.
struct Run {
  const LogRows* part;
  int64_t row, count;
};

std::vector<Run> runs_of(const std::vector<const LogRows*>& parts, const int32_t* part, const int32_t* row, int64_t n) {
  std::vector<Run> runs;
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0 && part[i] == part[i - 1] && row[i] == row[i - 1] + 1)
      ++runs.back().count;
    else
      runs.push_back({parts[static_cast<size_t>(part[i])], row[i], 1});
  }
  return runs;
}

// Copies `width` values a row.
template <class T>
void copy(const std::vector<Run>& runs, int64_t n, Buffer<T> LogRows::* member, size_t width, Buffer<T>& out) {
  if (width == 0) return;
  out.reserve(static_cast<size_t>(n) * width);
  T* to = out.data();
  for (const Run& r : runs) {
    size_t count = static_cast<size_t>(r.count) * width;
    std::memcpy(to, (r.part->*member).data() + static_cast<size_t>(r.row) * width, count * sizeof(T));
    to += count;
  }
}

void copy_ragged(const std::vector<Run>& runs, int64_t n, size_t feature, RaggedColumn& out) {
  out.offsets.reserve(static_cast<size_t>(n) + 1);
  int64_t* to = out.offsets.data();
  *to = 0;
  for (const Run& r : runs) {
    const int64_t* from = r.part->ragged[feature].offsets.data() + r.row;
    for (int64_t i = 0; i < r.count; ++i, ++to) to[1] = to[0] + from[i + 1] - from[i];
  }
  out.values.reserve(static_cast<size_t>(*to));
  int64_t* values = out.values.data();
  for (const Run& r : runs) {
    const RaggedColumn& from = r.part->ragged[feature];
    const int64_t begin = from.offsets.data()[r.row], count = from.offsets.data()[r.row + r.count] - begin;
    if (count) std::memcpy(values, from.values.data() + begin, static_cast<size_t>(count) * sizeof(int64_t));
    values += count;
  }
}

}  // namespace

std::shared_ptr<LogRows> gather(const std::vector<const LogRows*>& parts, const int32_t* part, const int32_t* row,
                                int64_t n) {
  if (parts.empty()) fail(ErrorKind::kAttribute, "gather of log rows: there are no parts");
  const LogSchema& schema = *parts[0]->schema;
  for (int64_t i = 0; i < n; ++i)
    if (part[i] < 0 || static_cast<size_t>(part[i]) >= parts.size() || row[i] < 0 || row[i] >= parts[part[i]]->count)
      fail(ErrorKind::kAttribute, "gather of log rows: row ", row[i], " of part ", part[i], " does not exist");
  for (const LogRows* p : parts)
    if (p->schema->sparse.size() != schema.sparse.size() || p->schema->dense.size() != schema.dense.size() ||
        p->schema->labels.size() != schema.labels.size() || p->ragged.size() != schema.ragged.size() ||
        (p->schema->weight < 0) != (schema.weight < 0) || (p->schema->group < 0) != (schema.group < 0) ||
        (p->schema->time < 0) != (schema.time < 0))
      fail(ErrorKind::kAttribute, "gather of log rows: the parts have different features");
  auto out = std::make_shared<LogRows>(parts[0]->schema);
  out->count = n;
  const std::vector<Run> runs = runs_of(parts, part, row, n);
  copy(runs, n, &LogRows::sparse, schema.sparse.size(), out->sparse);
  copy(runs, n, &LogRows::dense, schema.dense.size(), out->dense);
  copy(runs, n, &LogRows::labels, schema.labels.size(), out->labels);
  copy(runs, n, &LogRows::weight, schema.weight >= 0, out->weight);
  copy(runs, n, &LogRows::group, schema.group >= 0, out->group);
  copy(runs, n, &LogRows::time, schema.time >= 0, out->time);
  for (size_t i = 0; i < out->ragged.size(); ++i) copy_ragged(runs, n, i, out->ragged[i]);
  return out;
}

}  // namespace paddock::reader
