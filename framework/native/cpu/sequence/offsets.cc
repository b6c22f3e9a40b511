// The check of offsets; see offsets.h.
#include "cpu/sequence/offsets.h"

namespace paddock::cpu {

CheckedOffsets::CheckedOffsets(const KernelContext& c, const char* name, int64_t rows) {
  const Tensor& t = c.in(name);
  dispatch_index(t.dtype(), [&](auto tag) {
    const auto* in = t.data<typename decltype(tag)::type>();
    at_.assign(in, in + t.numel());
  });
  if (at_.front() != 0)
    fail(ErrorKind::kAttribute, c.op().name, ": ", name, "[0] is ", at_.front(),
         " but the first sequence starts at row 0");
  for (size_t b = 1; b < at_.size(); ++b)
    if (at_[b] < at_[b - 1])
      fail(ErrorKind::kAttribute, c.op().name, ": ", name, "[", b, "] is ", at_[b], " after ", at_[b - 1],
           "; offsets must not fall: sequence b has rows ", name, "[b] ... ", name, "[b + 1] - 1");
  if (at_.back() != rows)
    fail(ErrorKind::kAttribute, c.op().name, ": ", name, " ends at ", at_.back(), " but there are ", rows,
         " rows; the last offset is the number of rows");
}

}  // namespace paddock::cpu
