// How multiclass_nms treats boxes that overlap a better one: its attribute `method`.
#pragma once
#include "op/choice.h"

namespace paddock {

enum class NmsMethod { kHard, kSoftLinear, kSoftGaussian, kMatrixLinear, kMatrixGaussian };

template <class Context>
NmsMethod nms_method(const Context& c) {
  return static_cast<NmsMethod>(
      choice(c, "method", {"hard", "soft_linear", "soft_gaussian", "matrix_linear", "matrix_gaussian"}));
}

}  // namespace paddock
