#include "reader/columns.h"

#include "core/error.h"
#include "reader/utf8.h"
#include "reader/writer.h"

namespace paddock::reader {
namespace {

// Raises an error where offsets do not ascend within [0, limit].
void check_offsets(std::span<const int64_t> offsets, size_t limit) {
  int64_t before = 0;
  for (int64_t at : offsets) {
    if (at < before || static_cast<size_t>(at) > limit)
      fail(ErrorKind::kAttribute, "log columns: offset ", at, " is below the one before it or above ", limit);
    before = at;
  }
}

void check(const TextColumn& c, int64_t rows) {
  auto n = static_cast<size_t>(rows);
  if (c.offsets.empty()) fail(ErrorKind::kAttribute, "log columns: a column has no offsets");
  size_t texts = c.offsets.size() - 1;
  check_offsets(c.offsets, c.data.size());
  if (c.lists.empty() ? texts != n : c.lists.size() != n + 1)
    fail(ErrorKind::kAttribute, "log columns: a column has ", texts, " texts for ", n, " rows");
  check_offsets(c.lists, texts);
  if (!c.valid.empty() && c.valid.size() != texts)
    fail(ErrorKind::kAttribute, "log columns: ", c.valid.size(), " marks for ", texts, " texts");
}

Cell text_of(const TextColumn& c, int64_t i) {
  auto at = static_cast<size_t>(i);
  if (!c.valid.empty() && !c.valid[at]) return {};
  return {c.data.data() + c.offsets[at], static_cast<size_t>(c.offsets[at + 1] - c.offsets[at])};
}

}  // namespace

std::shared_ptr<LogRows> parse_columns(std::shared_ptr<const LogSchema> schema, const std::vector<TextColumn>& columns,
                                       int64_t count, size_t kept) {
  if (columns.size() != static_cast<size_t>(schema->columns))
    fail(ErrorKind::kAttribute, "log columns: ", columns.size(), " columns; the schema has ", schema->columns);
  for (const TextColumn& c : columns) check(c, count);
  auto rows = std::make_shared<LogRows>(schema);
  rows->kept = kept;
  RowWriter writer(*rows, count);
  std::vector<Cell> cells;
  std::vector<int32_t> begin(columns.size() + 1);
  for (int64_t r = 0; r < count; ++r, ++rows->lines) {
    cells.clear();
    for (size_t c = 0; c < columns.size(); ++c) {
      begin[c] = static_cast<int32_t>(cells.size());
      const TextColumn& column = columns[c];
      int64_t first = column.lists.empty() ? r : column.lists[r];
      int64_t last = column.lists.empty() ? r + 1 : column.lists[r + 1];
      for (int64_t i = first; i < last; ++i) cells.push_back(text_of(column, i));
    }
    begin.back() = static_cast<int32_t>(cells.size());
    if (auto wrong = writer.add({cells.data(), begin.data()}, r))
      rows->note(wrong->kind, wrong->column, wrong->count, r, wrong->text);
  }
  return rows;
}

}  // namespace paddock::reader
