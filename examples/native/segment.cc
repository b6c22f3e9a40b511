// Labels every pixel of a picture with an exported segmentation network, such as DeepLabV3+:
//
//   ./segment exported/ photo.ppm labels.pgm
//
// writes the class of each of the picture's own pixels as a PGM, and prints the share of it that each class covers.
#include <cstdio>

#include "ppm.h"

namespace {

void segment(const std::string& folder, const std::string& file, const std::string& labelled) {
  paddock::Predictor model(folder);
  const auto picture = example::read_ppm(file);
  const auto prepared = model.prepare({picture.view()});
  const auto labels = model.run(prepared.inputs()).at(0);  // uint8 [1, H, W]
  const auto shape = labels.shape();
  const auto own = prepared.labels_back(labels.data<uint8_t>(), int(shape.at(1)), int(shape.at(2)));
  std::ofstream out(labelled, std::ios::binary);
  out << "P5\n" << picture.width << " " << picture.height << "\n255\n";
  out.write(reinterpret_cast<const char*>(own.data()), std::streamsize(own.size()));
  if (!out.flush()) throw std::runtime_error(labelled + ": cannot be written");
  std::vector<size_t> pixels(256);
  for (const uint8_t label : own) ++pixels[label];
  for (size_t k = 0; k < pixels.size(); ++k)
    if (const auto name = model.metadata("/processor/class_names/" + std::to_string(k)); name && pixels[k])
      std::printf("%s %.5f\n", name->c_str(), double(pixels[k]) / double(own.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: segment EXPORT PICTURE.ppm LABELS.pgm\n");
    return 2;
  }
  try {
    segment(argv[1], argv[2], argv[3]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "segment: %s\n", e.what());
    return 1;
  }
  return 0;
}
