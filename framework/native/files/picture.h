// What the bytes of a plain picture file say of it; nothing is decoded.
#pragma once
#include <cstddef>
#include <cstdint>

namespace paddock::files {

// Of a JPEG or PNG file that is whole by its container, has a header and holds no tags by which a decoder may turn it:
// what suites/vision/headers.py and images.py read of such a file. All 0 for any other file, which these look at.
struct Picture {
  int64_t height = 0, width = 0;
  int64_t pixel_bytes = 0;  // that a decoder takes for one pixel
  int64_t scans = 0;        // of a JPEG, counted by their marks
};

Picture plain_picture(const uint8_t* data, size_t size);

}  // namespace paddock::files
