// The table of inner loops, filled while the library is opened.
#include "cpu/elementwise/micro_op.h"

#include <map>
#include <tuple>

namespace paddock::cpu {
namespace {

auto& table() {
  static std::map<std::tuple<std::string_view, DType, DType>, MicroRun> loops;
  return loops;
}

constexpr int kMostInputs = 3;

}  // namespace

void add_micro_op(const MicroOp& op) { table()[{op.op, op.in, op.out}] = op.run; }

MicroRun find_micro_op(std::string_view op, DType in, DType out) {
  auto found = table().find({op, in, out});
  if (found == table().end()) fail(ErrorKind::kInternal, op, ": no inner loop from ", in, " to ", out);
  return found->second;
}

void run_whole(const KernelContext& c, MicroRun run, std::initializer_list<double> attrs, int64_t grain) {
  const Tensor& y = c.out(0);
  const int inputs = std::min(c.input_count(), kMostInputs);
  parallel_for(y.numel(), grain, [&](int64_t begin, int64_t end) {
    const void* in[kMostInputs];
    for (int i = 0; i < inputs; ++i) in[i] = c.in(i).data<char>() + begin * dtype_size(c.in(i).dtype());
    run(in, y.data<char>() + begin * dtype_size(y.dtype()), end - begin, attrs.begin());
  });
}

}  // namespace paddock::cpu
