// Offsets that come as data: checked before they are used, so that no kernel reads outside of its rows.
#pragma once
#include "cpu/kernel.h"

namespace paddock::cpu {

// Where the sequences of ragged data begin and end.
class CheckedOffsets {
 public:
  // The offsets of input `name`, which must rise from 0 to `rows`; the error names the first that does not.
  CheckedOffsets(const KernelContext& c, const char* name, int64_t rows);

  int64_t sequences() const { return static_cast<int64_t>(at_.size()) - 1; }
  int64_t begin(int64_t b) const { return at_[static_cast<size_t>(b)]; }
  int64_t end(int64_t b) const { return at_[static_cast<size_t>(b) + 1]; }
  int64_t length(int64_t b) const { return end(b) - begin(b); }
  int64_t longest() const {
    int64_t most = 0;
    for (int64_t b = 0; b < sequences(); ++b) most = std::max(most, length(b));
    return most;
  }

 private:
  std::vector<int64_t> at_;
};

}  // namespace paddock::cpu
