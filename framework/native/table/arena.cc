// Regions are twice as large each time, up to 64 MiB.
#include "table/arena.h"

#include <algorithm>
#include <cstring>

#include "table/pages.h"

namespace paddock::table {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kFirstRegion = size_t{256} << 10, kLargestRegion = size_t{64} << 20;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

Arena::~Arena() {
  for (const Region& r : regions_) unmap_pages(r.data, r.bytes);
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
  regions_.push_back({map_pages(bytes), bytes});
  next_ = regions_.back().data;
  left_ = bytes / block_bytes_;
}

}  // namespace paddock::table
