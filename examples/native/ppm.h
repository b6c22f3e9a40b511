// Pictures from binary PPM files. For other kinds, fill a Picture by the decoder of your choice.
#pragma once
#include <cctype>
#include <cstdint>
#include <fstream>
#include <limits>
#include <paddock.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace example {

struct Picture {
  int height = 0, width = 0;
  std::vector<uint8_t> pixels;  // RGB, [height, width, 3]
  paddock::Picture view() const { return {height, width, pixels.data()}; }
};

// One number of a PPM's header, behind spaces and comments.
inline int header_number(std::istream& file) {
  while (std::isspace(file.peek()) || file.peek() == '#') {
    if (file.get() == '#') file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  int number = 0;
  file >> number;
  return number;
}

// A binary PPM with one byte a channel and at most 64 million pixels.
inline Picture read_ppm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[2] = {};
  file.read(magic, 2);
  if (!file || magic[0] != 'P' || magic[1] != '6') throw std::runtime_error(path + ": is no binary PPM (P6)");
  const int width = header_number(file), height = header_number(file), most = header_number(file);
  if (!file || width < 1 || height < 1 || most != 255 || int64_t{width} * height > (int64_t{1} << 26))
    throw std::runtime_error(path + ": its header states no picture of one byte a channel and up to 64 million pixels");
  file.get();  // one space
  Picture picture{height, width, std::vector<uint8_t>(size_t(height) * size_t(width) * 3)};
  file.read(reinterpret_cast<char*>(picture.pixels.data()), std::streamsize(picture.pixels.size()));
  if (!file) throw std::runtime_error(path + ": is cut off");
  return picture;
}

}  // namespace example
