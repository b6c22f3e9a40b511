// The table of this library's kernels, read once by use_isa.
#include "cpu/kernel.h"

namespace paddock::cpu {

std::vector<KernelEntry>& kernel_table() {
  static std::vector<KernelEntry> table;
  return table;
}

}  // namespace paddock::cpu

extern "C" PADDOCK_API const std::vector<paddock::KernelEntry>& paddock_kernel_table() {
  return paddock::cpu::kernel_table();
}
