// Says what a picture or a clip shows, by an exported classifier of pictures, or of videos such as TSN:
//
//   ./recognise exported/ photo.ppm
//   ./recognise exported/ frame1.ppm frame2.ppm ...
//
// prints the best five classes with their scores. Of a classifier of videos all frames are given, in order; those that
// the export looks at are chosen of them as in Python.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "ppm.h"

namespace {

int number_at(paddock::Predictor& model, const std::string& pointer) {
  const auto found = model.metadata(pointer);
  if (!found) throw std::runtime_error("the export states no " + pointer);
  return std::stoi(*found);
}

// The frames of a video of `total` that TSN's segments choose: the middle of each part, `length` in a row.
std::vector<size_t> chosen(paddock::Predictor& model, size_t total) {
  const std::string segments = "/processor/segments/";
  const int count = number_at(model, segments + "0"), length = number_at(model, segments + "1"),
            interval = number_at(model, segments + "2");
  if (number_at(model, segments + "3") != 1) throw std::runtime_error("takes exports with one test clip");
  const int last = int(total) - 1, reach = (length - 1) * interval + 1;
  const double share = double(std::max(last + 2 - reach, 1)) / count;
  std::vector<size_t> frames;
  for (int part = 0; part < count; ++part)
    for (int i = 0; i < length; ++i)
      frames.push_back(size_t(std::min(int(std::floor((part + 0.5) * share)) + i * interval, last)));
  return frames;
}

void recognise(const std::string& folder, const std::vector<std::string>& files) {
  paddock::Predictor model(folder);
  const bool video = model.metadata("/suite").value_or("") == "video";
  if (!video && files.size() != 1) throw std::runtime_error("a classifier of pictures takes one picture");
  std::vector<example::Picture> pictures;
  for (const size_t k : video ? chosen(model, files.size()) : std::vector<size_t>{0})
    pictures.push_back(example::read_ppm(files[k]));
  std::vector<paddock::Picture> views;
  for (const auto& picture : pictures) views.push_back(picture.view());
  const auto prepared = model.prepare(views);
  const auto outputs = model.run(prepared.inputs());
  const float* scores = outputs.at(0).data<float>();  // [1, K]
  std::vector<size_t> order(outputs[0].size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  for (size_t k = 0; k < std::min<size_t>(order.size(), 5); ++k)
    std::printf("%s %.5f\n", model.metadata("/processor/class_names/" + std::to_string(order[k])).value_or("?").c_str(),
                double(scores[order[k]]));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: recognise EXPORT PICTURE.ppm...\n");
    return 2;
  }
  try {
    recognise(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "recognise: %s\n", e.what());
    return 1;
  }
  return 0;
}
