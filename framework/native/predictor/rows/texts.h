// Texts of rows by column, as the reader of logs takes them: of cells, or of the lines of a slot log.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "reader/columns.h"

namespace paddock::rows {

class RowTexts {
 public:
  // `cells` [count, columns], row by row.
  RowTexts(size_t columns, const std::vector<std::string_view>& cells);
  // Lines `label slot:sign slot:sign ...`, with a head and an order as the schema has them, by the rule of
  // suites/ctr/datasets/slots.py. Slots that the schema does not name are left out. Error, with the number of the line,
  // for what is no line. `head`: the names of the first columns, for errors.
  RowTexts(const reader::LogSchema& schema, const std::vector<std::string>& head,
           const std::vector<std::string_view>& lines);

  std::vector<reader::TextColumn> columns() const;

 private:
  struct Column {
    std::string text;
    std::vector<int64_t> offsets{0}, lists;
    void add(std::string_view cell) {
      text += cell;
      offsets.push_back(static_cast<int64_t>(text.size()));
    }
  };
  std::vector<Column> columns_;
};

}  // namespace paddock::rows
