// Half types: an operator that declares them (OpDef::half) computes float16 and bfloat16 in float32 and rounds each of
// its results once, to nearest even.
#pragma once
#include <optional>

#include "op/op.h"

namespace paddock {

constexpr bool is_half(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// What a shape rule sees of a call with half types: float32 in their place. Half inputs have one type, and beside them
// float32 may stand where the operator says so and as a number (no axes).
class HalfTypes {
 public:
  HalfTypes(const OpDef& op, const TensorType* const* inputs, int count);  // throws where types do not fit
  HalfTypes(const HalfTypes&) = delete;
  HalfTypes& operator=(const HalfTypes&) = delete;

  const TensorType* const* inputs() const { return pointers_.empty() ? given_ : pointers_.data(); }
  // Gives results the half type, but those that stay float32.
  void narrow(std::vector<TensorType>& outputs) const;

 private:
  void find(int count);

  const OpDef& op_;
  const TensorType* const* given_;
  std::optional<DType> half_;
  std::vector<TensorType> types_;
  std::vector<const TensorType*> pointers_;  // empty where nothing is half
};

// The kernel of a call: for half types the operator's own, or one that runs the float32 kernel on copies.
KernelFn kernel_for(const KernelContext& c);

}  // namespace paddock
