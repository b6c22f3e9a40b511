// Anonymous pages.
#include "predictor/sealing/wiped.h"

#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace paddock::sealing {

void wipe(void* data, size_t bytes) noexcept {
  if (bytes) explicit_bzero(data, bytes);
}

Wiped::Wiped(size_t bytes) : size_(std::max<size_t>(bytes, 1)) {
  void* at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<char*>(at);
#ifdef MADV_DONTDUMP
  madvise(data_, size_, MADV_DONTDUMP);
#endif
#ifdef MADV_HUGEPAGE
  madvise(data_, size_, MADV_HUGEPAGE);  // saves most page faults
#endif
}

Wiped::~Wiped() {
  wipe(data_, size_);
  munmap(data_, size_);
}

}  // namespace paddock::sealing
