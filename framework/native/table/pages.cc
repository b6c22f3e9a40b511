#include "table/pages.h"

#include <sys/mman.h>

#include <bit>
#include <cstdint>
#include <new>

namespace paddock::table {
namespace {

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

int size_of(size_t bytes, size_t least) { return std::countr_zero(bytes / least); }

char* buddy_of(char* block, size_t bytes) {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(block) ^ bytes);
}

}  // namespace

char* map_pages(size_t bytes) {
  const size_t spare = bytes < kHugePage ? 0 : kHugePage;
  void* mapped = mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  if (!spare) return static_cast<char*>(mapped);
  char *from = static_cast<char*>(mapped), *end = from + bytes + spare;
  char* data = reinterpret_cast<char*>(round_up(reinterpret_cast<size_t>(from), kHugePage));
  if (data != from) munmap(from, static_cast<size_t>(data - from));
  if (end != data + bytes) munmap(data + bytes, static_cast<size_t>(end - data) - bytes);
  madvise(data, bytes, MADV_HUGEPAGE);  // a hint, may fail
  return data;
}

void unmap_pages(char* data, size_t bytes) { munmap(data, bytes); }

char* BuddyPages::take(size_t bytes) {
  if (bytes < kLeast) return static_cast<char*>(::operator new(bytes));
  if (bytes >= kHugePage) return map_pages(bytes);
  std::lock_guard lock(mutex_);
  const int wanted = size_of(bytes, kLeast);
  int size = wanted;
  while (size < kSizes && free_[static_cast<size_t>(size)].empty()) ++size;
  char* block;
  if (size == kSizes) {
    block = map_pages(kHugePage);
  } else {
    auto& from = free_[static_cast<size_t>(size)];
    block = *from.begin();
    from.erase(from.begin());
  }
  while (size-- > wanted) free_[static_cast<size_t>(size)].insert(block + (kLeast << size));
  return block;
}

void BuddyPages::give_back(char* block, size_t bytes) {
  if (bytes < kLeast) return ::operator delete(block);
  if (bytes >= kHugePage) return unmap_pages(block, bytes);
  std::lock_guard lock(mutex_);
  for (int size = size_of(bytes, kLeast); size < kSizes; ++size) {
    auto& others = free_[static_cast<size_t>(size)];
    char* buddy = buddy_of(block, kLeast << size);
    if (!others.erase(buddy)) {
      others.insert(block);
      return;
    }
    if (buddy < block) block = buddy;
  }
  unmap_pages(block, kHugePage);
}

}  // namespace paddock::table
