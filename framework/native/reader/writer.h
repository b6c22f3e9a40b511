// RowWriter: cells of a row to values of LogRows.
#pragma once
#include <optional>
#include <string_view>

#include "reader/rows.h"

namespace paddock::reader {

using Cell = std::string_view;

// Cells of one row. Column c has cells[begin[c]] .. cells[begin[c + 1]], or without `begin` just cells[c].
struct Cells {
  const Cell* cells;
  const int32_t* begin = nullptr;

  const Cell* first(int column) const { return cells + (begin ? begin[column] : column); }
  int count(int column) const { return begin ? begin[column + 1] - begin[column] : 1; }
  // The `place`-th value of a column; empty where there is none.
  Cell at(int column, int place) const { return place < count(column) ? first(column)[place] : Cell(); }
};

// What is wrong with a row.
struct Wrong {
  FaultKind kind;
  int column;
  Cell text;
  int64_t count = 0;
};

class RowWriter {
 public:
  // There will be `expected` rows or so, and may be more.
  RowWriter(LogRows& rows, int64_t expected);

  // Appends the row; for a bad one it says why and leaves the rows as they were. `offset` is the row's byte.
  std::optional<Wrong> add(const Cells& cells, int64_t offset);

 private:
  bool missing(Cell cell) const { return cell.empty() || (!schema_.missing.empty() && listed(cell)); }
  bool listed(Cell cell) const;
  std::optional<Wrong> add_sparse(const Cells& cells);
  std::optional<Wrong> add_dense(const Cells& cells);
  std::optional<Wrong> add_labels(const Cells& cells);
  std::optional<Wrong> add_rest(const Cells& cells, int64_t offset);
  std::optional<Wrong> add_ragged(const Cells& cells);
  std::optional<Wrong> extra_values(const Cells& cells) const;
  std::optional<Wrong> hash(Cell cell, int column, uint64_t& hash) const;
  // The form of a column whose numbers or dates are not plain; null for others.
  const Written* form_of(int column) const { return forms_.empty() ? nullptr : forms_[static_cast<size_t>(column)]; }
  // A number; of a date the days since 1970.
  bool number(int column, Cell cell, double& value);
  // A whole number; of a date the seconds since 1970.
  bool whole(int column, Cell cell, int64_t& value);
  bool bucket_hash(const SparseField& field, Cell cell, uint64_t& hash);
  void split(Cell cell, Cell separator);
  void collect(const Cells& cells, const RaggedField& f);
  void reserve(int64_t rows);

  const LogSchema& schema_;
  LogRows& rows_;
  int64_t capacity_ = 0;
  std::vector<Cell> pieces_;
  std::vector<const Written*> forms_;  // by column; empty where all are plain
  std::string plain_;
  std::vector<int64_t> members_;  // signs of a cross
  std::vector<int> places_;       // of a slot log: values that a column may have; -1 for any number
};

}  // namespace paddock::reader
