// Many files at once, on all cores: their sizes, ends, digests, and what pictures say of themselves.
//
// Only regular files are read. A file that cannot be read as a whole in one go, one that changes meanwhile among them,
// has the size -1: who asks reads it by itself and gets the reason.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/api.h"

namespace paddock::files {

// Paths below a root: file i is root/names[ends[i]:ends[i + 1]].
struct Paths {
  std::string root;
  const char* names;
  const int64_t* ends;
};

// All outputs have a row for each of `count` places, which are indices into the paths.

// Bytes of each file; links are followed, -1 where there is none.
PADDOCK_API void sizes(const Paths& paths, const int64_t* places, int64_t count, int64_t* size);

// Size, the first and the last bytes of each file, [count, first + last], the last ones behind `first` columns. Of a
// file of at most `first` bytes the last ones are those of the first. Bytes that a short file lacks are 0.
PADDOCK_API void ends(const Paths& paths, const int64_t* places, int64_t count, int64_t first, int64_t last,
                      int64_t* size, uint8_t* bytes);

// Size of each file, and a digest of its size and `end` bytes at both ends, or of all of at most twice `end` bytes.
PADDOCK_API void end_digests(const Paths& paths, const int64_t* places, int64_t count, int64_t end, int64_t* size,
                             uint8_t* digest);

// Size and digest of each file of at most `most` bytes, and what it says where it is a plain picture, [count, 4]: see
// `Picture`.
PADDOCK_API void pictures(const Paths& paths, const int64_t* places, int64_t count, int64_t most, int64_t* size,
                          uint8_t* digest, int64_t* picture);

}  // namespace paddock::files
