// Reference-counted memory from a caching allocator, and scratch space for kernels.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/api.h"

namespace paddock {

inline constexpr size_t kAlignment = 64;

// A block of bytes, 64-byte aligned when it is our own, or foreign memory with a release action (NumPy,
// DLPack).
class PADDOCK_API Storage {
 public:
  // Scratch lives for one kernel, so a block that is too large for it may serve: it is back soon.
  enum class For { kTensor, kScratch };

  explicit Storage(size_t bytes, For use = For::kTensor);
  Storage(void* data, size_t bytes, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool is_foreign() const { return static_cast<bool>(release_); }

  // Why its bytes are not to be read: a run of a program failed while it wrote them. Null while all is well.
  const std::string* torn() const { return torn_.get(); }
  void tear(std::string why) { torn_ = std::make_unique<const std::string>(std::move(why)); }

 private:
  void* data_;
  size_t bytes_;
  size_t held_ = 0;  // bytes of the allocator's block; 0 for foreign memory
  std::function<void()> release_;
  std::unique_ptr<const std::string> torn_;
};

// Bytes that our own storages hold now, at most so far, and that the allocator keeps for reuse.
struct MemoryStats {
  size_t live, peak, cached;
};
PADDOCK_API MemoryStats memory_stats();
PADDOCK_API void reset_peak_memory();
PADDOCK_API void release_cached_memory();
// The most bytes that wait for reuse, whatever the peak was. What has waited longest is given back first.
PADDOCK_API void set_cached_memory_limit(size_t bytes);

// Uninitialised scratch memory that goes back to the cache at the end of its scope.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : storage_(bytes, Storage::For::kScratch) {}
  template <class T>
  T* as() const {
    return static_cast<T*>(storage_.data());
  }

 private:
  Storage storage_;
};
inline Scratch scratch(size_t bytes) { return Scratch(bytes); }

}  // namespace paddock
