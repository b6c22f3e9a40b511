// Files from outside: regular ones alone, within their limit of bytes. What is wrong with one is a FileError.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "core/error.h"

namespace paddock::predictor {

// A file is missing, damaged or over a limit; the message names it and says what to do.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void refuse(const Args&... args) {
  throw FileError(cat(args...));
}

// What an export may cost; see framework.limits for each of them.
struct Limits {
  int64_t text_bytes = int64_t{64} << 20;
  int64_t weight_bytes = int64_t{1} << 36;
  int64_t elements = int64_t{1} << 26;
  int64_t element_growth = 64;
  int64_t plan_elements = int64_t{1} << 31;
  int64_t nodes = 1'000'000;
  int64_t levels = 32;
  int64_t loop_steps = 10'000'000;
  int64_t pixels = int64_t{1} << 26;
};

// Throws where `amount` is over the limit `name`.
void check_limit(const char* name, int64_t allowed, int64_t amount, const std::string& what);
// The sentence that ends a message about a limit.
std::string how_to_raise(const char* name);

// A regular file, open for reading. A pipe does not wait for a writer, and is refused as a device is.
class OpenFile {
 public:
  OpenFile(const std::string& path, const char* limit, int64_t most);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }
  int64_t size() const { return size_; }
  // Bytes from a place on; false where the file ends before, or cannot be read. Threads may do so at once.
  bool read_at(int64_t place, char* to, size_t bytes) const;

 private:
  int fd_;
  int64_t size_ = 0;
};

// The bytes of a file that is at most `most` bytes long; `limit` is the name of that limit.
std::string read_file(const std::string& path, const char* limit, int64_t most);
// The same of a key's file.
std::string read_key_file(const std::string& path, int64_t most);

// Bytes in memory that lives as long as `hold`.
struct FileBytes {
  std::shared_ptr<void> hold;
  char* data;
  int64_t size;
};

// A file in memory, read when it is touched. It must not be changed or cut while it is mapped; one that another takes
// the place of by a rename stays as it was.
class MappedFile {
 public:
  MappedFile(const std::string& path, const char* limit, int64_t most);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  char* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace paddock::predictor
