// Regions come from mmap: twice as large each time, up to 64 MiB, and aligned to huge pages.
#include "table/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace paddock::table {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHuge = size_t{2} << 20;  // bytes of a huge page
constexpr size_t kFirstRegion = size_t{256} << 10, kLargestRegion = size_t{64} << 20;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Memory of zeros that begins at a huge page where it holds one: rows are read in no order, so that with small pages
// most of the time would go into finding where each page lies.
char* map(size_t bytes) {
  const size_t spare = bytes < kHuge ? 0 : kHuge;
  void* mapped = mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  if (!spare) return static_cast<char*>(mapped);
  char *from = static_cast<char*>(mapped), *end = from + bytes + spare;
  char* data = reinterpret_cast<char*>(round_up(reinterpret_cast<size_t>(from), kHuge));
  if (data != from) munmap(from, static_cast<size_t>(data - from));
  if (end != data + bytes) munmap(data + bytes, static_cast<size_t>(end - data) - bytes);
  madvise(data, bytes, MADV_HUGEPAGE);  // a hint, may fail
  return data;
}

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
  const size_t bytes = std::max(std::min(2 * last, kLargestRegion), round_up(block_bytes_, kPage));
  regions_.push_back({map(bytes), bytes});
  next_ = regions_.back().data;
  left_ = bytes / block_bytes_;
}

}  // namespace paddock::table
