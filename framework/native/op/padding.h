// The attribute `padding` of windows over images: convolution and pooling read it alike.
#pragma once
#include "op/context.h"

namespace paddock {

// One number, (height, width), or (top, bottom, left, right); the result is the last.
inline std::array<int64_t, 4> window_padding(const OpDef& op, const Ints& p) {
  if (p.size() == 1) return {p[0], p[0], p[0], p[0]};
  if (p.size() == 2) return {p[0], p[0], p[1], p[1]};
  if (p.size() == 4) return {p[0], p[1], p[2], p[3]};
  fail(ErrorKind::kAttribute, op.name, ": padding has ", p.size(),
       " numbers; takes one, two (height, width) or four (top, bottom, left, right)");
}

}  // namespace paddock
