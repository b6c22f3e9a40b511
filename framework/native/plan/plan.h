// A plan: a program's shapes and buffers for given input types. Made in well under a millisecond, kept for
// reuse.
#pragma once
#include <string>
#include <vector>

#include "plan/memory.h"
#include "plan/program.h"

namespace paddock {

// Where a value's bytes lie during a run.
struct Place {
  enum Kind : uint8_t { kNone, kInput, kState, kConstant, kArena, kResult } kind = kNone;
  int index = 0;       // which input, state, constant or result
  int64_t offset = 0;  // in the arena
};

struct Plan {
  std::vector<TensorType> input_types;  // the key: types of inputs and states
  std::vector<TensorType> types;        // of every value
  std::vector<Place> places;            // of every value
  std::vector<int> root;                // the value whose bytes this one shares (itself when none); views run no kernel
  std::vector<bool> result_copied;      // results that alias another place and are copied out
  std::vector<bool> update_copied;      // updates whose value was not written into the state's own buffer
  std::vector<int> update_written_at;   // the instruction that writes an update into the state's own buffer; -1: none
  int64_t arena_bytes = 0, lower_bound = 0, naive_bytes = 0;
  int in_place_count = 0;
};

// The instructions whose kernels may refuse the data that they are given, in order.
std::vector<int> refusing_instructions(const ProgramDesc& program);

// `refusing`: refusing_instructions of this program.
Plan make_plan(const ProgramDesc& program, const std::vector<int>& refusing, std::vector<TensorType> input_types);

}  // namespace paddock
