// Finds objects on a picture with an exported detector, such as YOLOv3, SSD or Mask R-CNN:
//
//   ./detect exported/ photo.ppm
//
// prints a line an object: class, score, and the box x1 y1 x2 y2 in the picture's own pixels; behind it the pixels of
// its mask, where the network finds masks.
#include <cstdio>
#include <map>
#include <numeric>

#include "ppm.h"

namespace {

// Element `i` of whole numbers of either size.
int64_t whole_at(const paddock::TensorView& t, int64_t i) {
  return t.type() == PADDOCK_INT32 ? t.data<int32_t>()[i] : t.data<int64_t>()[i];
}

void detect(const std::string& folder, const std::string& file) {
  paddock::Predictor model(folder);
  const auto picture = example::read_ppm(file);
  const auto prepared = model.prepare({picture.view()});
  const auto outputs = model.run(prepared.inputs());
  std::map<std::string, paddock::TensorView> found;
  const auto infos = model.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) found[infos[i].name] = outputs[i];
  const double least = std::stod(model.metadata("/processor/min_score").value_or("0"));
  const int64_t count = whole_at(found.at("counts"), 0);
  const float* scores = found.at("scores").data<float>();
  const auto boxes = prepared.boxes_back(found.at("boxes").data<float>(), count);
  for (int64_t i = 0; i < count; ++i) {
    if (scores[i] < least) continue;
    const auto name = model.metadata("/processor/class_names/" + std::to_string(whole_at(found.at("classes"), i)));
    const float* box = boxes.data() + 4 * i;
    std::printf("%s %.5f %.2f %.2f %.2f %.2f", name.value_or("?").c_str(), double(scores[i]), double(box[0]),
                double(box[1]), double(box[2]), double(box[3]));
    if (found.count("masks")) {
      const auto& masks = found.at("masks");  // [1, D, S, S]
      const int64_t size = masks.shape().back();
      const auto bitmap = prepared.masks_back(masks.data<float>() + i * size * size, 1, int(size), box);
      std::printf(" %lld", static_cast<long long>(std::accumulate(bitmap.begin(), bitmap.end(), 0LL)));
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: detect EXPORT PICTURE.ppm\n");
    return 2;
  }
  try {
    detect(argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "detect: %s\n", e.what());
    return 1;
  }
  return 0;
}
