#include "op/numbers.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/error.h"

namespace paddock {
namespace {

thread_local NumberCheck current_check = NumberCheck::kOff;

struct Count {
  int64_t nan = 0, infinite = 0;
};

template <class T>
Count count(const Tensor& t) {
  Count found;
  for (const T *x = t.data<T>(), *end = x + t.numel(); x != end; ++x) {
    using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
    const auto value = static_cast<Wide>(*x);
    found.nan += std::isnan(value);
    found.infinite += std::isinf(value);
  }
  return found;
}

Count count_in(const Tensor& t) {
  switch (t.dtype()) {
    case DType::kF32:
      return count<float>(t);
    case DType::kF64:
      return count<double>(t);
    case DType::kF16:
      return count<Float16>(t);
    case DType::kBF16:
      return count<BFloat16>(t);
    default:
      return {};
  }
}

bool wrong(const Count& c, NumberCheck check) { return c.nan || (check == NumberCheck::kFinite && c.infinite); }

// The first input that holds such numbers itself; one that a result was written over is not known any more.
std::string inputs_text(const KernelContext& context, NumberCheck check) {
  for (int i = 0; i < context.input_count(); ++i) {
    if (!context.has(i)) continue;
    bool overwritten = false;
    for (int k = 0; k < context.output_count(); ++k) overwritten |= context.out(k).raw() == context.in(i).raw();
    if (overwritten || !wrong(count_in(context.in(i)), check)) continue;
    const auto& specs = context.op().inputs;
    return "its input " + specs[std::min<size_t>(i, specs.size() - 1)].name + " holds such numbers already";
  }
  return "its inputs hold none, or were written over";
}

}  // namespace

NumberCheck set_number_check(NumberCheck check) { return std::exchange(current_check, check); }

NumberCheck number_check() { return current_check; }

void check_numbers(const KernelContext& context, NumberCheck check) {
  for (int i = 0; i < context.output_count(); ++i) {
    const Tensor& out = context.out(i);
    if (!out) continue;
    const Count found = count_in(out);
    if (!wrong(found, check)) continue;
    const auto& specs = context.op().outputs;
    fail(ErrorKind::kNumerics, context.op().name, ": result ", specs[std::min<size_t>(i, specs.size() - 1)].name,
         " of shape ", out.shape(), " holds ", found.nan, " NaN and ", found.infinite, " infinite numbers of ",
         out.numel(), "; ", inputs_text(context, check));
  }
}

}  // namespace paddock
