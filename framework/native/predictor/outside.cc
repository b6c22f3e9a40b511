// Opening, reading and mapping files from outside.
#include "predictor/outside.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace paddock::predictor {
OpenFile::OpenFile(const std::string& path, const char* limit, int64_t most)
    : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) refuse(path, ": cannot be opened (", std::strerror(errno), ")");
  struct stat about;
  if (fstat(fd_, &about) != 0 || !S_ISREG(about.st_mode)) {
    close(fd_);
    refuse(path, ": is a folder, a pipe or a device, not a file");
  }
  size_ = about.st_size;
  try {
    check_limit(limit, most, size_, path + ": it has too many bytes");
  } catch (...) {
    close(fd_);
    throw;
  }
}

OpenFile::~OpenFile() { close(fd_); }

bool OpenFile::read_at(int64_t place, char* to, size_t bytes) const {
  while (bytes) {
    const ssize_t n = pread(fd_, to, bytes, place);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    place += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

std::string how_to_raise(const char* name) {
  return cat("If you trust it, raise the limit: paddock_options_set(options, \"", name, "\", N)");
}

void check_limit(const char* name, int64_t allowed, int64_t amount, const std::string& what) {
  if (amount > allowed) refuse(what, ", ", amount, "; ", allowed, " are allowed. ", how_to_raise(name));
}

std::string read_file(const std::string& path, const char* limit, int64_t most) {
  const OpenFile file(path, limit, most);
  std::string text(static_cast<size_t>(file.size()), '\0');
  size_t got = 0;
  while (got < text.size()) {  // what a file that grows has more is not read
    const ssize_t n = read(file.fd(), text.data() + got, text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse(path, ": cannot be read (", std::strerror(errno), ")");
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  text.resize(got);
  return text;
}

std::string read_key_file(const std::string& path, int64_t most) {
  const OpenFile file(path, "key", INT64_MAX);
  if (file.size() > most) refuse(path, ": has ", file.size(), " bytes, which is no key");
  std::string text(static_cast<size_t>(file.size()), '\0');
  if (!file.read_at(0, text.data(), text.size())) refuse(path, ": cannot be read");
  return text;
}

MappedFile::MappedFile(const std::string& path, const char* limit, int64_t most) {
  const OpenFile file(path, limit, most);
  size_ = file.size();
  if (size_ == 0) return;
  void* at = mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (at == MAP_FAILED) refuse(path, ": cannot be mapped (", std::strerror(errno), ")");
  data_ = static_cast<char*>(at);
}

MappedFile::~MappedFile() {
  if (data_) munmap(data_, static_cast<size_t>(size_));
}

}  // namespace paddock::predictor
