// The inner loops of the element-wise operators, one a type: their kernels run them over whole tensors, chain over
// blocks that stay in cache.
#pragma once
#include <initializer_list>
#include <string_view>

#include "cpu/elementwise/dispatch.h"
#include "cpu/kernel.h"

namespace paddock::cpu {

// y[i] = f(in[0][i], in[1][i], ...) for n elements, with the operator's numeric attributes in order. y may be an input
// where the operator declares it.
using MicroRun = void (*)(const void* const* in, void* y, int64_t n, const double* attrs);

struct MicroOp {
  std::string_view op;
  DType in, out;  // types of the last input and of the output
  MicroRun run;
};

void add_micro_op(const MicroOp& op);
MicroRun find_micro_op(std::string_view op, DType in,
                       DType out);  // never null: every element-wise operator has its own

struct MicroRegistrar {
  MicroRegistrar(std::initializer_list<MicroOp> ops) {
    for (const MicroOp& op : ops) add_micro_op(op);
  }
};

// Whether a class holds a type.
template <Types kTypes>
constexpr bool allows(DType t) {
  const bool is_float = t == DType::kF32 || t == DType::kF64;
  if (kTypes == kBool) return t == DType::kBool;
  if (is_float || kTypes == kFloats) return is_float;
  return t == DType::kI32 || t == DType::kI64 || (kTypes == kComparable && dtype_size(t) == 1);
}

// A registrar of one loop for each type of a class; `make(TypeTag<T>{})` gives the loop. `to_bool`: y is bool.
template <Types kTypes, class Make>
MicroRegistrar micro_ops(std::string_view op, bool to_bool, Make make) {
  for (DType t : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kI8, DType::kU8, DType::kBool})
    if (allows<kTypes>(t))
      dispatch_types<kTypes>(t, [&](auto tag) { add_micro_op({op, t, to_bool ? DType::kBool : t, make(tag)}); });
  return {};
}

// Runs a loop over inputs and an output of one shape.
void run_whole(const KernelContext& c, MicroRun run, std::initializer_list<double> attrs = {}, int64_t grain = kGrain);

}  // namespace paddock::cpu
