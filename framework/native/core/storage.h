// Reference-counted memory from a caching allocator, and scratch space for kernels.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

#include "core/api.h"

namespace paddock {

inline constexpr size_t kAlignment = 64;

// A block of bytes, 64-byte aligned when it is our own, or foreign memory with a release action (NumPy,
// DLPack).
class PADDOCK_API Storage {
 public:
  explicit Storage(size_t bytes);
  Storage(void* data, size_t bytes, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
  std::function<void()> release_;
};

// Bytes that our own storages hold now, at most so far, and that the allocator keeps for reuse.
struct MemoryStats {
  size_t live, peak, cached;
};
PADDOCK_API MemoryStats memory_stats();
PADDOCK_API void reset_peak_memory();
PADDOCK_API void release_cached_memory();

// Uninitialised scratch memory that goes back to the cache at the end of its scope.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : storage_(bytes) {}
  template <class T>
  T* as() const {
    return static_cast<T*>(storage_.data());
  }

 private:
  Storage storage_;
};
inline Scratch scratch(size_t bytes) { return Scratch(bytes); }

}  // namespace paddock
