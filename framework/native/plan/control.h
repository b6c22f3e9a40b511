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

}  // namespace paddock
