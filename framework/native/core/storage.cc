// The caching allocator: freed blocks wait in size classes, so a training loop asks the system for memory
// once. What waits is bounded: in all, at most twice the most bytes ever live at once are held, and kAlwaysKept more.
// Scratch of one kernel after the other shares a few large blocks, and a new large block takes the place of what waits.
#include "core/storage.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace paddock {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlwaysKept = size_t{64} << 20;
constexpr size_t kSharedScratch = size_t{1} << 20;  // from here on, scratch looks beyond its own class
constexpr size_t kScratchSlack = 8;                 // and takes a block of at most so many times its size
constexpr size_t kReplacing = size_t{32} << 20;     // a new block of so many bytes has as many given back for it

// Classes are spaced by at most an eighth, so at most 12.5 % of a block is wasted.
size_t size_class(size_t bytes) {
  if (bytes <= 512) return (bytes + 63) / 64 * 64 + (bytes == 0) * 64;
  size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

// Huge pages for what fills them: a last one that is used in part would take its 2 MB as a whole, which adds up to a
// tenth of a large model's weights.
void use_huge_pages(char* p, size_t size, size_t all) {
  const size_t whole = size / kHugePage * kHugePage;
  madvise(p, whole, MADV_HUGEPAGE);
  if (whole < all) madvise(p + whole, all - whole, MADV_NOHUGEPAGE);
}

class Cache {
 public:
  struct Block {
    void* data;
    size_t size;
  };

  Block take(size_t bytes, Storage::For use) {
    const size_t size = size_class(bytes);
    {
      std::lock_guard lock(mutex_);
      const bool shares = use == Storage::For::kScratch && size >= kSharedScratch;
      auto it = waiting(size, shares ? kScratchSlack * size : size);
      if (it != free_.end()) {
        const Block found{it->second.back().block, it->first};
        it->second.pop_back();
        cached_ -= found.size;
        count(found.size);
        return found;
      }
      if (shares) drop_one_below(size);
      if (size >= kReplacing) shrink_to(cached_ - std::min(cached_, size));
      count(size);
    }
    return {allocate(size), size};
  }

  void give(void* p, size_t size) {
    std::lock_guard lock(mutex_);
    live_ -= size;
    cached_ += size;
    free_[size].push_back({p, ++given_});
    if (cached_ > most_cached()) shrink_to(most_cached() / 8 * 7);  // by an eighth, so that this is rare
  }

  // Around fork(): a child has the lock as it was, and no thread that would let go of it.
  void hold() { mutex_.lock(); }
  void let_go() { mutex_.unlock(); }

  void set_limit(size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    shrink_to(most_cached());
  }

  void trim() {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_)
      for (const Waiting& w : blocks) std::free(w.block);
    free_.clear();
    cached_ = 0;
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return {live_, peak_, cached_};
  }

  void reset_peak() {
    std::lock_guard lock(mutex_);
    peak_ = live_;
  }

 private:
  struct Waiting {
    void* block;
    uint64_t since;  // how many blocks had been given by then
  };
  using Classes = std::map<size_t, std::vector<Waiting>>;

  void count(size_t size) {
    live_ += size;
    peak_ = std::max(peak_, live_);
    most_ = std::max(most_, live_);
  }

  // The smallest class of `least` to `most` bytes in which a block waits.
  Classes::iterator waiting(size_t least, size_t most) {
    for (auto it = free_.lower_bound(least); it != free_.end() && it->first <= most; ++it)
      if (!it->second.empty()) return it;
    return free_.end();
  }

  // Scratch that grows from kernel to kernel replaces its block, and leaves none in every class on its way.
  void drop_one_below(size_t size) {
    auto it = waiting(size / kScratchSlack, size);
    if (it == free_.end()) return;
    std::free(it->second.back().block);
    it->second.pop_back();
    cached_ -= it->first;
  }

  void* allocate(size_t size) {
    const size_t alignment = size >= kHugePage ? kHugePage : kAlignment;
    const size_t all = (size + alignment - 1) / alignment * alignment;
    void* p = std::aligned_alloc(alignment, all);
    if (!p) {  // give back what we keep for reuse, then try once more
      trim();
      p = std::aligned_alloc(alignment, all);
    }
    if (!p) {
      std::lock_guard lock(mutex_);
      live_ -= size;
      throw std::bad_alloc();
    }
    if (size >= kHugePage) use_huge_pages(static_cast<char*>(p), size, all);
    return p;
  }

  size_t most_cached() const { return std::min(limit_, 2 * most_ - live_ + kAlwaysKept); }

  // Gives back what has waited longest. The blocks of a class wait in the order in which they were given.
  void shrink_to(size_t bytes) {
    while (cached_ > bytes) {
      auto oldest = free_.end();
      for (auto it = free_.begin(); it != free_.end(); ++it)
        if (!it->second.empty() && (oldest == free_.end() || it->second.front().since < oldest->second.front().since))
          oldest = it;
      if (oldest == free_.end()) return;
      std::free(oldest->second.front().block);
      oldest->second.erase(oldest->second.begin());
      cached_ -= oldest->first;
    }
  }

  std::mutex mutex_;
  Classes free_;
  size_t live_ = 0, peak_ = 0, cached_ = 0;
  size_t most_ = 0;  // live bytes ever; the peak can be set back
  size_t limit_ = std::numeric_limits<size_t>::max();
  uint64_t given_ = 0;
};

// Never destroyed: tensors held by Python may outlive static destruction.
Cache& cache();

Cache* new_cache() {
  auto let_go = [] { cache().let_go(); };
  pthread_atfork([] { cache().hold(); }, let_go, let_go);
  return new Cache;
}

Cache& cache() {
  static Cache* instance = new_cache();
  return *instance;
}

}  // namespace

// AddressSanitizer sees neither the unused end of a block nor blocks that wait for reuse unless it is told.
Storage::Storage(size_t bytes, For use) : bytes_(bytes) {
  const Cache::Block block = cache().take(bytes, use);
  data_ = block.data;
  held_ = block.size;
  ASAN_UNPOISON_MEMORY_REGION(data_, bytes);
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(data_) + bytes, held_ - bytes);
}

Storage::Storage(void* data, size_t bytes, std::function<void()> release)
    : data_(data), bytes_(bytes), release_(std::move(release)) {}

Storage::~Storage() {
  if (release_) {
    release_();
  } else {
    ASAN_POISON_MEMORY_REGION(data_, held_);
    cache().give(data_, held_);
  }
}

MemoryStats memory_stats() { return cache().stats(); }
void reset_peak_memory() { cache().reset_peak(); }
void set_cached_memory_limit(size_t bytes) { cache().set_limit(bytes); }
void release_cached_memory() {
  cache().trim();
#ifdef __GLIBC__
  malloc_trim(0);  // what NumPy and others have freed below the mapping threshold
#endif
}

}  // namespace paddock
