// What a file says of one operation, against the signature of its operator.
#pragma once
#include <vector>

#include "op/op.h"
#include "plan/program.h"
#include "predictor/json.h"

namespace paddock::predictor {

// Attributes in the signature's order, those that are left out by its defaults; FileError for what it does not take.
std::vector<AttrValue> attrs_of(const OpDef& op, const Json& given);

// Refuses a number of inputs, or an absent one, that the signature does not allow.
void check_arguments(const OpDef& op, const std::vector<int>& inputs);

}  // namespace paddock::predictor
