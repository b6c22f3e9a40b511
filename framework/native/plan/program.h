// A program as the native side sees it: instructions over numbered values, nothing about patterns or Python.
#pragma once
#include <vector>

#include "op/op.h"

namespace paddock {

inline constexpr int kAbsent = -1;  // an optional input that is not given

struct Instruction {
  const OpDef* op;
  std::vector<int> inputs, outputs;  // value numbers
  std::vector<AttrValue> attrs;
};

// Values 0 .. inputs-1 are the inputs, then the states, then the constants, then the instructions' results.
struct ProgramDesc {
  int input_count = 0, state_count = 0, value_count = 0;
  std::vector<Tensor> constants;
  std::vector<Instruction> instructions;
  std::vector<int> results;  // values handed to the caller
  struct Update {
    int state, value;  // after the run, state number `state` holds what `value` was
  };
  std::vector<Update> updates;

  int first_state() const { return input_count; }
  int first_constant() const { return input_count + state_count; }
  int first_temporary() const { return first_constant() + static_cast<int>(constants.size()); }
};

}  // namespace paddock
