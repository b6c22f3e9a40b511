// Rows of several LogRows as one.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "reader/rows.h"

namespace paddock::reader {
namespace {

struct Source {
  const std::vector<const LogRows*>& parts;
  const int32_t* part;
  const int32_t* row;
  int64_t n;

  // Copies `width` values a row.
  template <class T>
  void copy(Buffer<T> LogRows::* member, size_t width, Buffer<T>& out) const {
    if (width == 0) return;
    out.reserve(static_cast<size_t>(n) * width);
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(out.data() + static_cast<size_t>(i) * width,
                  (parts[part[i]]->*member).data() + static_cast<size_t>(row[i]) * width, width * sizeof(T));
  }

  void copy_ragged(size_t feature, RaggedColumn& out) const {
    out.offsets.reserve(static_cast<size_t>(n) + 1);
    int64_t* offsets = out.offsets.data();
    offsets[0] = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t* from = parts[part[i]]->ragged[feature].offsets.data() + row[i];
      offsets[i + 1] = offsets[i] + from[1] - from[0];
    }
    out.values.reserve(static_cast<size_t>(offsets[n]));
    for (int64_t i = 0; i < n; ++i) {
      const RaggedColumn& from = parts[part[i]]->ragged[feature];
      auto bytes = static_cast<size_t>(offsets[i + 1] - offsets[i]) * sizeof(int64_t);
      if (bytes) std::memcpy(out.values.data() + offsets[i], from.values.data() + from.offsets.data()[row[i]], bytes);
    }
  }
};

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
  Source source{parts, part, row, n};
  source.copy(&LogRows::sparse, schema.sparse.size(), out->sparse);
  source.copy(&LogRows::dense, schema.dense.size(), out->dense);
  source.copy(&LogRows::labels, schema.labels.size(), out->labels);
  source.copy(&LogRows::weight, schema.weight >= 0, out->weight);
  source.copy(&LogRows::group, schema.group >= 0, out->group);
  source.copy(&LogRows::time, schema.time >= 0, out->time);
  for (size_t i = 0; i < out->ragged.size(); ++i) source.copy_ragged(i, out->ragged[i]);
  return out;
}

}  // namespace paddock::reader
