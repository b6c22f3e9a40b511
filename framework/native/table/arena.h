// Blocks of one size for the rows of all buckets, cut from large regions that may use huge pages.
#pragma once
#include <cstddef>
#include <mutex>
#include <vector>

namespace paddock::table {

class Arena {
 public:
  explicit Arena(size_t block_bytes) : block_bytes_(block_bytes) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A block of zeros; throws std::bad_alloc when the system gives no memory. Safe from several threads.
  char* take();
  void give_back(char* block);
  size_t block_bytes() const { return block_bytes_; }
  size_t used_bytes() const;  // in blocks that are taken

 private:
  struct Region {
    char* data;
    size_t bytes;
  };
  void add_region();

  const size_t block_bytes_;
  mutable std::mutex mutex_;
  std::vector<Region> regions_;
  std::vector<char*> free_;
  size_t taken_ = 0;      // blocks
  char* next_ = nullptr;  // the untouched part of the last region
  size_t left_ = 0;       // blocks of it
};

}  // namespace paddock::table
