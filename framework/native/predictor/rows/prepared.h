// Rows of a click log as a model's inputs: cells to signs, and signs to the rows of its table.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "predictor/json.h"
#include "predictor/outside.h"
#include "reader/schema.h"
#include "table/snapshot.h"

namespace paddock::rows {

// What an export says of its rows; made once.
struct RowPlan {
  std::shared_ptr<const reader::LogSchema> schema;
  std::vector<std::string> columns, ragged;  // names
  std::shared_ptr<const table::Snapshot> table;
  int64_t elements;  // of a tensor, at most

  // Whether rows are lines of a slot log.
  bool takes_lines() const { return schema->slots; }
};

// Error of kind kNotSupported where the metadata say no such thing, FileError for what lies beside the export.
RowPlan row_plan(const predictor::Json& metadata, const std::string& folder, const predictor::Limits& limits);
// The columns of a row, in order; none where rows are lines of a slot log.
std::vector<std::string> columns_of(const predictor::Json& metadata);

class PreparedRows {
 public:
  // `cells` [count, columns], row by row; an empty text is a missing value. Of a plan that takes lines `cells` are
  // these, [count]. Error for a row that cannot be used.
  PreparedRows(const RowPlan& plan, const std::vector<std::string_view>& cells, int64_t count);
  // sparse [N, F, R], dense [N, D], and of each feature of many values its rows [T, R] and offsets [N + 1].
  const Tensor& input(const std::string& name) const;

 private:
  std::map<std::string, Tensor> inputs_;
};

}  // namespace paddock::rows
