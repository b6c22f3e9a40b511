// The tape of operator `chain`: element-wise operators applied one after another, written as text such as
// "sigmoid(x0); sub(t0, x1); clip(t1, min=0, max=1)". x<i> is input i, t<i> the result of statement i, `like` the input
// that gives its shape only.
#pragma once
#include "op/op.h"

namespace paddock {

struct TapeArg {
  enum Kind : uint8_t { kInput, kResult, kLike } kind;
  int index;
};

struct Statement {
  // What it does: an element-wise operator, or one of the three that spread a value over the shape of `like`.
  enum Kind : uint8_t { kElementwise, kBroadcastLike, kFullLike, kUnreduce } kind;
  const OpDef* op;
  std::vector<TapeArg> args;
  std::vector<AttrValue> attrs;
};

// Reads a tape over `inputs` inputs; `who` asks. An AttributeValueError names the statement that is wrong.
PADDOCK_API std::vector<Statement> parse_tape(const std::string& who, const std::string& text, int inputs);

}  // namespace paddock
