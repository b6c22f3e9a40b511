// Control flow: operators whose kernels run blocks, each an executable of its own with plans and an arena.
#pragma once
#include "plan/executable.h"

namespace paddock {

// One use of `cond`, `loop` or `scan` with its blocks, which outlive it. Not part of the registry.
//   cond: pred, xs... -> ys...; blocks (xs) -> ys for true and for false.
//   loop: state..., captured... -> state...; blocks (state, captured) -> bool and (state, captured) -> state.
//   scan: state..., columns..., captured... -> state..., gathered...; block (state, rows, captured) -> (state, rows).
struct PADDOCK_API ControlOp : OpDef {
  ControlOp(const std::string& kind, std::vector<Executable*> its_blocks);
  std::vector<Executable*> blocks;
};

// Steps that the loops and scans of this thread may take from here on, all together; returns what was left before.
PADDOCK_API int64_t set_step_budget(int64_t steps);

// Called between steps every few milliseconds; it ends the run by throwing.
PADDOCK_API void set_interrupt_check(void (*check)());

}  // namespace paddock
