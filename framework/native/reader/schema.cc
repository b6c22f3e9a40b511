// Checks of a LogSchema, so that parsers need none.
#include "reader/schema.h"

#include "core/error.h"

namespace paddock::reader {
namespace {

constexpr uint64_t kSlots = 4096;

template <class... Args>
void expect(bool holds, const Args&... args) {
  if (!holds) fail(ErrorKind::kAttribute, "log schema: ", args...);
}

}  // namespace

void LogSchema::check() {
  auto expect_column = [&](int column, const char* what) {
    expect(column >= 0 && column < columns, what, " has column ", column, " of ", columns);
  };
  auto expect_slot = [&](uint64_t slot) { expect(slot > 0 && slot < kSlots, "slot ", slot, " is not in 1..4095"); };
  expect(columns > 0, "there are no columns");
  expect(line_bytes > 0, "line_bytes is ", line_bytes);
  expect(delimiter != '\n' && delimiter != '\r' && delimiter != 0, "a delimiter is no end of line");
  expect(quote == 0 || quote != delimiter, "the quote is the delimiter");
  expect(!newlines || (quote != 0 && !slots), "`newlines` is for a CSV with a quote");
  for (size_t i = 0; i < sparse.size(); ++i) {
    const SparseField& f = sparse[i];
    expect_slot(f.slot);
    expect(f.place >= 0, "place ", f.place, " is negative");
    if (!f.members.empty()) {
      for (int m : f.members) expect(m >= 0 && m < static_cast<int>(i), "a cross has member ", m, " not before it");
    } else {
      expect_column(f.column, "a sparse feature");
    }
  }
  for (size_t i = 0; i < ragged.size(); ++i) {
    const RaggedField& f = ragged[i];
    expect(f.along >= -1 && f.along < static_cast<int>(i), "a feature goes along ", f.along,
           ", which is not before it");
    expect_slot(f.slot);
    expect_column(f.column, "a multi-valued feature");
    expect(f.count >= 1 && f.count <= columns - f.column, "a feature of ", f.count, " columns from ", f.column, " of ",
           columns);
    expect(!slots || f.count == 1, "a feature of a slot log has one slot");
    expect(f.max_length >= -1, "max_length is ", f.max_length);
  }
  for (const DenseField& f : dense) {
    expect_column(f.column, "a dense feature");
    expect(f.place >= 0, "place ", f.place, " is negative");
    expect(f.scaling != Scale::kCentered || f.scale != 0, "a scale is 0");
  }
  for (const LabelField& f : labels)
    if (!labels_optional || f.column != -1) expect_column(f.column, "a label");
  for (const Written& w : written)
    if (w.column != -1) expect_column(w.column, "a written form");
  for (int column : {weight, group, time})
    if (column != -1) expect_column(column, "weight, group or time");
  expect(!slots || (head >= 0 && head <= columns), "head is ", head);
  for (int i = slots ? head : columns; i < columns; ++i) keys.emplace(key_texts.at(i), i);
}

}  // namespace paddock::reader
