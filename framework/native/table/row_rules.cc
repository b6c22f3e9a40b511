// The rules of the instruction set in use.
#include "table/row_rules.h"

namespace paddock::table {

static RowRules active{};

const RowRules& row_rules() { return active; }
void set_row_rules(const RowRules& rules) { active = rules; }

}  // namespace paddock::table
