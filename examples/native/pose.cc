// Finds the keypoints of an object on a picture (PPM): pose EXPORT PICTURE.ppm [X1 Y1 X2 Y2]
//
// X1 Y1 X2 Y2 is the object's box in pixels, as a detector found it; without one the picture is the object. Prints the
// name of each point with x, y and how sure it is. Networks of heatmaps, such as HRNet, and those that give points.
#include <cstdio>

#include "ppm.h"

namespace {

void find_points(const std::string& folder, const std::string& file, const std::vector<float>& box) {
  paddock::Predictor model(folder);
  const auto picture = example::read_ppm(file);
  const auto prepared = box.empty() ? model.prepare({picture.view()}) : model.prepare_objects(picture.view(), box);
  const paddock::TensorView output = model.run(prepared.inputs()).at(0);
  paddock::Keypoints found;
  if (model.metadata("/outputs/0") == "heatmaps") {
    found = model.decode_heatmaps(output);
  } else {  // points [1, L, 3]
    const float* points = output.data<float>();
    for (size_t i = 0; i < output.size(); i += 3) {
      found.points.insert(found.points.end(), points + i, points + i + 2);
      found.scores.push_back(points[i + 2]);
    }
  }
  const auto count = static_cast<int64_t>(found.scores.size());
  const auto places = prepared.points_back(found.points.data(), count);
  for (size_t i = 0; i < found.scores.size(); ++i)
    std::printf("%s %.2f %.2f %.4f\n",
                model.metadata("/processor/pose/names/" + std::to_string(i)).value_or("?").c_str(),
                double(places[2 * i]), double(places[2 * i + 1]), double(found.scores[i]));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 7) return std::fprintf(stderr, "usage: pose EXPORT PICTURE.ppm [X1 Y1 X2 Y2]\n"), 2;
  try {
    std::vector<float> box;
    for (int i = 3; i < argc; ++i) box.push_back(std::stof(argv[i]));
    find_points(argv[1], argv[2], box);
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "pose: %s\n", e.what()), 1;
  }
}
