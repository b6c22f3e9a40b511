// The operators of one table, made for it: they hold it, so it lives as long as a Program that uses it.
#pragma once
#include <memory>

#include "op/op.h"
#include "table/table.h"

namespace paddock::table {

struct PADDOCK_API TableOp : OpDef {
  std::shared_ptr<Table> table;

  // kind: "gather" (keys -> y), "update" (lr, grad_scale?, parts... ->) or "sum_of_squares" (parts... -> y).
  TableOp(const std::string& kind, std::shared_ptr<Table> table);
};

}  // namespace paddock::table
