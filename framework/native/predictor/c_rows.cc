// paddock.h's rows of click logs: arguments are checked, exceptions become statuses.
#include "predictor/prepared_handle.h"

using paddock::c_api::bad_argument;
using paddock::c_api::expect;
using paddock::c_api::guarded;

namespace {

std::shared_ptr<const paddock::rows::RowPlan> plan_of(paddock_predictor* p) {
  const std::lock_guard<std::mutex> turn(p->rows->lock);
  auto& plan = p->rows->plan;
  if (!plan)
    plan = std::make_shared<const paddock::rows::RowPlan>(
        paddock::rows::row_plan(p->self->metadata(), p->self->folder(), p->self->limits()));
  return plan;
}

}  // namespace

extern "C" {

int32_t paddock_column_count(const paddock_predictor* p) {
  int32_t count = 0;
  guarded([&] {
    expect(p, "predictor");
    count = static_cast<int32_t>(paddock::rows::columns_of(p->self->metadata()).size());
  });
  return count;
}

paddock_status paddock_prepare_rows(paddock_predictor* p, const char* const* cells, const uint64_t* bytes, int32_t rows,
                                    int32_t columns, paddock_prepared** prepared) {
  return guarded([&] {
    expect(prepared, "prepared");
    *prepared = nullptr;
    expect(p, "predictor");
    expect(cells, "cells");
    if (rows < 1) bad_argument("rows is ", rows, "; there must be one");
    const auto plan = plan_of(p);
    if (plan->takes_lines())
      paddock::fail(paddock::ErrorKind::kNotSupported,
                    "the model reads lines of slot logs, not cells; give them to paddock_prepare_lines");
    const size_t width = plan->columns.size();
    if (columns < 0 || static_cast<size_t>(columns) != width)
      bad_argument("rows have ", columns, " columns; the model reads ", width, " (/processor/reader/columns)");
    std::vector<std::string_view> texts(static_cast<size_t>(rows) * width);
    for (size_t i = 0; i < texts.size(); ++i)
      if (cells[i])
        texts[i] = bytes ? std::string_view(cells[i], static_cast<size_t>(bytes[i])) : std::string_view(cells[i]);
    paddock::rows::PreparedRows made(*plan, texts, rows);
    *prepared = new paddock_prepared{std::move(made), paddock::c_api::input_names(p)};
  });
}

paddock_status paddock_prepare_lines(paddock_predictor* p, const char* const* lines, const uint64_t* bytes,
                                     int32_t count, paddock_prepared** prepared) {
  return guarded([&] {
    expect(prepared, "prepared");
    *prepared = nullptr;
    expect(p, "predictor");
    expect(lines, "lines");
    if (count < 1) bad_argument("count is ", count, "; there must be a line");
    const auto plan = plan_of(p);
    if (!plan->takes_lines())
      paddock::fail(paddock::ErrorKind::kNotSupported,
                    "the model reads rows of cells, not lines of slot logs; give them to paddock_prepare_rows");
    std::vector<std::string_view> texts(static_cast<size_t>(count));
    for (size_t i = 0; i < texts.size(); ++i) {
      if (!lines[i]) bad_argument("line ", i, " is a null pointer");
      texts[i] = bytes ? std::string_view(lines[i], static_cast<size_t>(bytes[i])) : std::string_view(lines[i]);
    }
    paddock::rows::PreparedRows made(*plan, texts, count);
    *prepared = new paddock_prepared{std::move(made), paddock::c_api::input_names(p)};
  });
}

}  // extern "C"
