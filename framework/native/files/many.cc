#include "files/many.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <vector>

#include "core/parallel.h"
#include "files/blake2b.h"
#include "files/picture.h"

namespace paddock::files {
namespace {

constexpr int64_t kGrain = 32;  // files that a thread takes at a time

std::string path_of(const Paths& paths, int64_t at) {
  std::string path = paths.root;
  path += '/';
  return path.append(paths.names + paths.ends[at], static_cast<size_t>(paths.ends[at + 1] - paths.ends[at]));
}

bool is_path(const std::string& path) { return path.find('\0') == path.npos; }

// A regular file that is open for reading, or none.
class File {
 public:
  explicit File(const std::string& path) {
    if (!is_path(path)) return;
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe does not wait for a writer
    struct stat about;
    if (fd_ >= 0 && ::fstat(fd_, &about) == 0 && S_ISREG(about.st_mode)) size_ = about.st_size;
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int64_t size() const { return size_; }

  // Bytes from `at` on; false where there are fewer.
  bool read(uint8_t* into, int64_t count, int64_t at) const {
    while (count > 0) {
      const ssize_t found = ::pread(fd_, into, static_cast<size_t>(count), at);
      if (found < 0 && errno == EINTR) continue;
      if (found <= 0) return false;
      into += found;
      at += found;
      count -= found;
    }
    return true;
  }

  // Whether nothing lies behind the size that it had when it was opened.
  bool ends_there() const {
    uint8_t more;
    return ::pread(fd_, &more, 1, size_) == 0;
  }

 private:
  int fd_ = -1;
  int64_t size_ = -1;
};

// Calls look(file, i, buffer), which says whether the file was read, for each place i.
template <class Look>
void each_file(const Paths& paths, const int64_t* places, int64_t count, int64_t* size, Look look) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> buffer;
    for (int64_t i = begin; i < end; ++i) {
      const File file(path_of(paths, places[i]));
      size[i] = file.size() >= 0 && look(file, i, buffer) ? file.size() : -1;
    }
  });
}

void grow(std::vector<uint8_t>& buffer, int64_t size) {
  if (buffer.size() < static_cast<size_t>(size)) buffer.resize(static_cast<size_t>(size));
}

}  // namespace

void sizes(const Paths& paths, const int64_t* places, int64_t count, int64_t* size) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::string path = path_of(paths, places[i]);
      struct stat about;
      size[i] = is_path(path) && ::stat(path.c_str(), &about) == 0 ? about.st_size : -1;
    }
  });
}

void ends(const Paths& paths, const int64_t* places, int64_t count, int64_t first, int64_t last, int64_t* size,
          uint8_t* bytes) {
  each_file(paths, places, count, size, [&](const File& file, int64_t i, std::vector<uint8_t>&) {
    uint8_t* const row = bytes + i * (first + last);
    const int64_t begin = std::min(file.size(), first), end = std::min(file.size(), last);
    if (!file.read(row, begin, 0)) return false;
    if (file.size() > first) return file.read(row + first, end, file.size() - end);
    std::memcpy(row + first, row + begin - std::min(begin, end), static_cast<size_t>(std::min(begin, end)));
    return true;
  });
}

void end_digests(const Paths& paths, const int64_t* places, int64_t count, int64_t end, int64_t* size,
                 uint8_t* digest) {
  each_file(paths, places, count, size, [&](const File& file, int64_t i, std::vector<uint8_t>& buffer) {
    const int64_t whole = file.size();
    const int64_t first = whole <= 2 * end ? whole : end, last = whole <= 2 * end ? 0 : end;
    grow(buffer, first + last);
    if (!file.read(buffer.data(), first, 0) || !file.read(buffer.data() + first, last, whole - last)) return false;
    Blake2b hash;
    if (last > 0) {
      const std::string head = std::to_string(whole) + ' ';
      hash.add(reinterpret_cast<const uint8_t*>(head.data()), head.size());
    }
    hash.add(buffer.data(), static_cast<size_t>(first + last));
    hash.finish(digest + i * static_cast<int64_t>(Blake2b::kDigest));
    return true;
  });
}

void pictures(const Paths& paths, const int64_t* places, int64_t count, int64_t most, int64_t* size, uint8_t* digest,
              int64_t* picture) {
  each_file(paths, places, count, size, [&](const File& file, int64_t i, std::vector<uint8_t>& buffer) {
    if (file.size() > most) return false;
    grow(buffer, file.size());
    if (!file.read(buffer.data(), file.size(), 0) || !file.ends_there()) return false;
    const auto whole = static_cast<size_t>(file.size());
    Blake2b hash;
    hash.add(buffer.data(), whole);
    hash.finish(digest + i * static_cast<int64_t>(Blake2b::kDigest));
    const Picture found = plain_picture(buffer.data(), whole);
    const int64_t row[] = {found.height, found.width, found.pixel_bytes, found.scans};
    std::copy(std::begin(row), std::end(row), picture + 4 * i);
    return true;
  });
}

}  // namespace paddock::files
