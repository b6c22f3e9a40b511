#include "files/picture.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

namespace paddock::files {
namespace {

constexpr int kHeaderSteps = 1 << 16, kFileSteps = 1 << 18;  // from part to part; as in headers.py and images.py
constexpr std::string_view kPngSign("\x89PNG\r\n\x1a\n", 8);

// Reads of a file; `at` beyond it is the caller's to test.
struct Data {
  const uint8_t* bytes;
  size_t size;

  uint8_t operator[](size_t at) const { return bytes[at]; }
  bool has(size_t at, size_t count) const { return at <= size && count <= size - at; }
  size_t big16(size_t at) const { return size_t{bytes[at]} << 8 | bytes[at + 1]; }
  size_t big32(size_t at) const { return big16(at) << 16 | big16(at + 2); }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes), size}; }
  size_t find(uint8_t byte, size_t from) const {
    if (from >= size) return size;
    const void* found = std::memchr(bytes + from, byte, size - from);
    return found ? static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes) : size;
  }
};

bool has_end_mark(Data d, size_t from) {
  for (size_t at = d.find(0xFF, from); at + 1 < d.size; at = d.find(0xFF, at + 1))
    if (d[at + 1] == 0xD9) return true;
  return false;
}

// Segments are skipped by their length: the thumbnail in one may be a JPEG with an end mark of its own.
bool jpeg_is_whole(Data d) {
  size_t at = 2;
  for (int step = 0; step < kFileSteps && d.has(at, 4); ++step) {
    if (d[at] != 0xFF) return has_end_mark(d, at);
    if (d[at + 1] == 0xFF)
      at += 1;
    else if (d[at + 1] == 0xDA)
      return has_end_mark(d, at + 2);
    else
      at += 2 + d.big16(at + 2);
  }
  return false;
}

// The largest frame before the first scan.
Picture jpeg(Data d) {
  Picture found;
  if (!jpeg_is_whole(d)) return {};
  size_t at = 2;
  for (int step = 0; step < kHeaderSteps; ++step) {
    at = d.find(0xFF, at);
    if (at + 1 >= d.size) break;
    const uint8_t kind = d[at + 1];
    if (kind == 0xD9 || kind == 0xDA) break;
    if (kind == 0x00 || kind == 0xFF || kind == 0x01 || (kind >= 0xD0 && kind <= 0xD8)) {  // without a length
      at += kind == 0xFF ? 1 : 2;
      continue;
    }
    if (kind >= 0xC0 && kind <= 0xCF && kind != 0xC4 && kind != 0xC8 && kind != 0xCC) {
      if (!d.has(at, 9)) return {};
      found.height = std::max(found.height, static_cast<int64_t>(d.big16(at + 5)));
      found.width = std::max(found.width, static_cast<int64_t>(d.big16(at + 7)));
    }
    if (!d.has(at, 4)) return {};
    at += 2 + d.big16(at + 2);
  }
  for (at = d.find(0xFF, 0); at + 1 < d.size; at = d.find(0xFF, at + 1)) found.scans += d[at + 1] == 0xDA;
  found.pixel_bytes = 3;
  return found;
}

bool png_is_whole(Data d) {
  size_t at = kPngSign.size();
  for (int step = 0; step < kFileSteps && d.has(at, 12); ++step) {
    const bool last = d.text().substr(at + 4, 4) == "IEND";
    at += 12 + d.big32(at);
    if (last) return at <= d.size;
  }
  return false;
}

Picture png(Data d) {
  if (!d.has(0, 26) || d.text().substr(12, 4) != "IHDR" || !png_is_whole(d)) return {};
  constexpr int64_t kChannels[] = {1, 0, 3, 3, 2, 0, 4};  // of each colour type
  const uint8_t bits = d[24], colour = d[25];
  const int64_t channels = colour < std::size(kChannels) ? kChannels[colour] : 0;
  if (channels == 0) return {};
  const int64_t pixel_bytes = std::max<int64_t>(3, channels * std::max(bits / 8, 1));
  return {static_cast<int64_t>(d.big32(20)), static_cast<int64_t>(d.big32(16)), pixel_bytes, 0};
}

}  // namespace

Picture plain_picture(const uint8_t* data, size_t size) {
  const Data d{data, size};
  const std::string_view text = d.text();
  const bool is_jpeg = text.starts_with("\xFF\xD8"), is_png = text.starts_with(kPngSign);
  if (!is_jpeg && !is_png) return {};
  if (text.find("Exif") != text.npos || text.find("eXIf") != text.npos) return {};
  const Picture found = is_jpeg ? jpeg(d) : png(d);
  return found.height > 0 && found.width > 0 ? found : Picture{};
}

}  // namespace paddock::files
