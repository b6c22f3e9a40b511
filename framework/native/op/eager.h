// An eager call without copies of its inputs: what the binding uses, once an operator.
#pragma once
#include "op/op.h"

namespace paddock {

// As run_op; `inputs` point to tensors that live through the call, to empty ones where an optional input is absent.
PADDOCK_API std::vector<Tensor> run_op(const OpDef& op, const Tensor* const* inputs, int input_count,
                                       const std::vector<AttrValue>& attrs);

// `count` values of T: on the stack up to a number that almost all operators keep to.
template <class T>
class Few {
 public:
  explicit Few(size_t count) {
    if (count > kMost) more_.resize(count);
    data_ = count > kMost ? more_.data() : few_;
  }
  Few(const Few&) = delete;
  Few& operator=(const Few&) = delete;
  T& operator[](size_t i) { return data_[i]; }
  T* data() { return data_; }

 private:
  static constexpr size_t kMost = 8;
  T few_[kMost] = {};
  std::vector<T> more_;
  T* data_;
};

}  // namespace paddock
