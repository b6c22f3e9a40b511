// Regions come from mmap: twice as large each time, up to 64 MiB, and aligned to huge pages.
#include "table/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace paddock::table {
namespace {

constexpr size_t kFirstRegion = size_t{2} << 20, kLargestRegion = size_t{64} << 20;

}  // namespace

Arena::~Arena() {
  for (const Region& r : regions_) munmap(r.data, r.bytes);
}

char* Arena::take() {
  std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    char* block = free_.back();
    free_.pop_back();
    ++taken_;
    std::memset(block, 0, block_bytes_);
    return block;
  }
  if (left_ == 0) add_region();
  char* block = next_;
  next_ += block_bytes_;
  --left_;
  ++taken_;
  return block;
}

void Arena::give_back(char* block) {
  std::lock_guard lock(mutex_);
  free_.push_back(block);
  --taken_;
}

size_t Arena::used_bytes() const {
  std::lock_guard lock(mutex_);
  return taken_ * block_bytes_;
}

void Arena::add_region() {
  const size_t last = regions_.empty() ? kFirstRegion / 2 : regions_.back().bytes;
  const size_t bytes = std::max(std::min(2 * last, kLargestRegion), block_bytes_);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  if (bytes == kLargestRegion) madvise(data, bytes, MADV_HUGEPAGE);  // only once the table is large: a hint, may fail
  regions_.push_back({static_cast<char*>(data), bytes});
  next_ = static_cast<char*>(data);
  left_ = bytes / block_bytes_;
}

}  // namespace paddock::table
