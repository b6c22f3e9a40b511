// Memory in huge pages: it is read in no order, and with small pages much of the time would go into finding where each
// page lies.
#pragma once
#include <array>
#include <cstddef>
#include <mutex>
#include <set>

namespace paddock::table {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Zeros from the system, which begin at a huge page where they hold one; throws std::bad_alloc when it gives none.
char* map_pages(size_t bytes);
void unmap_pages(char* data, size_t bytes);

// Blocks of powers of two, for the indexes of all buckets: one that grows gives its old block back, and two such
// neighbours make the block that the next one needs (Knowlton 1965). Safe from several threads. When all blocks are
// given back, all memory is.
class BuddyPages {
 public:
  BuddyPages() = default;
  BuddyPages(const BuddyPages&) = delete;
  BuddyPages& operator=(const BuddyPages&) = delete;

  // Bytes of any content, a power of two; throws std::bad_alloc when the system gives none.
  char* take(size_t bytes);
  void give_back(char* block, size_t bytes);

 private:
  static constexpr size_t kLeast = size_t{64} << 10;  // smaller ones are the heap's
  static constexpr int kSizes = 5;                    // 64 KiB, ..., 1 MiB
  std::mutex mutex_;
  std::array<std::set<char*>, kSizes> free_;
};

// Lets a std::vector have its elements in BuddyPages; their number must be a power of two.
template <class T>
struct PageAllocator {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  BuddyPages* pages = nullptr;

  T* allocate(size_t count) { return reinterpret_cast<T*>(pages->take(count * sizeof(T))); }
  void deallocate(T* data, size_t count) { pages->give_back(reinterpret_cast<char*>(data), count * sizeof(T)); }
  bool operator==(const PageAllocator& other) const { return pages == other.pages; }
};

}  // namespace paddock::table
