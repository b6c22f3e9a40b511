// The search for the operator that made the first NaN: while it is on, every operator's results are looked at.
#pragma once
#include "op/context.h"

namespace paddock {

enum class NumberCheck { kOff, kNan, kFinite };  // kFinite also refuses infinities

// What operators of this thread are checked for from here on; returns what it was before.
PADDOCK_API NumberCheck set_number_check(NumberCheck check);
NumberCheck number_check();

// Refuses float results that hold a NaN, or an infinity where those are searched too.
void check_numbers(const KernelContext& context, NumberCheck check);

}  // namespace paddock
