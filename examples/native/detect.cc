// Finds objects on a picture with an exported one-stage detector, such as YOLOv3 or SSD:
//
//   ./detect exported/ photo.ppm
//
// prints a line an object: class, score, and the box x1 y1 x2 y2 in the picture's own pixels.
#include <cstdio>
#include <map>
#include <paddock.hpp>

#include "picture.h"

namespace {

using Numbers = std::array<double, 3>;

std::string text_at(paddock::Predictor& model, const std::string& pointer) {
  const auto found = model.metadata(pointer);
  if (!found) throw std::runtime_error("the export states no " + pointer);
  return *found;
}

double number_at(paddock::Predictor& model, const std::string& pointer, double otherwise) {
  const auto found = model.metadata(pointer);
  return found ? std::stod(*found) : otherwise;
}

Numbers numbers_at(paddock::Predictor& model, const std::string& pointer, Numbers otherwise) {
  for (size_t c = 0; c < 3; ++c) otherwise[c] = number_at(model, pointer + "/" + std::to_string(c), otherwise[c]);
  return otherwise;
}

// A transform's size: a side, or [height, width].
std::array<int, 2> size_at(paddock::Predictor& model, const std::string& pointer) {
  if (!model.metadata(pointer + "/0")) {
    const int side = std::stoi(text_at(model, pointer));
    return {side, side};
  }
  return {std::stoi(text_at(model, pointer + "/0")), std::stoi(text_at(model, pointer + "/1"))};
}

// What Python does by the transforms of the export; others than these are refused.
struct Prepared {
  std::vector<float> values;
  int height, width;
  example::Placement placement;
};

Prepared prepared(paddock::Predictor& model, const example::Picture& picture) {
  const std::string list = "/processor/transforms", frame = list + "/0", normal = list + "/1";
  const std::string kind = text_at(model, frame + "/type");
  const bool unknown =
      model.metadata(list + "/2") || model.metadata(frame + "/interp") || model.metadata(normal + "/bgr");
  const bool resize = kind == "Resize";
  if (unknown || (kind != "Letterbox" && !resize) || text_at(model, normal + "/type") != "Normalize")
    throw std::runtime_error("prepares pictures by Letterbox or Resize, then Normalize; the export wants " +
                             text_at(model, list));
  const auto size = size_at(model, frame + "/size");
  const bool centred = model.metadata(frame + "/centred").value_or("true") == "true";
  const auto placed = resize ? example::stretched(picture, size[0], size[1])
                             : example::letterboxed(picture, size[0], size[1],
                                                    numbers_at(model, frame + "/fill", {0.5, 0.5, 0.5}), centred);
  const Numbers mean = numbers_at(model, normal + "/mean", {0.485, 0.456, 0.406});
  const Numbers std = numbers_at(model, normal + "/std", {0.229, 0.224, 0.225});
  return {example::normalised(placed.picture, mean, std), size[0], size[1], placed.placement};
}

// Element `i` of whole numbers of either size.
int64_t whole_at(const paddock::TensorView& t, int64_t i) {
  return t.type() == PADDOCK_INT32 ? t.data<int32_t>()[i] : t.data<int64_t>()[i];
}

// A box in pixels of the network's input as one of the picture, cut to it.
void print_box(const float* box, const example::Placement& p, const example::Picture& picture) {
  const double x[] = {(box[0] - p.left) / p.scale_x, (box[2] - p.left) / p.scale_x};
  const double y[] = {(box[1] - p.top) / p.scale_y, (box[3] - p.top) / p.scale_y};
  const auto inside = [](double v, int end) { return std::clamp(v, 0.0, double(end)); };
  std::printf(" %.2f %.2f %.2f %.2f\n", inside(x[0], picture.width), inside(y[0], picture.height),
              inside(x[1], picture.width), inside(y[1], picture.height));
}

void detect(const std::string& folder, const std::string& file) {
  paddock::Predictor model(folder);
  if (text_at(model, "/suite") != "detection" || model.inputs().size() != 1)
    throw std::runtime_error(folder + ": is no one-stage detector");
  const auto picture = example::read_ppm(file);
  const auto input = prepared(model, picture);
  const auto outputs = model.run({paddock::tensor(input.values, {1, input.height, input.width, 3})});
  std::map<std::string, paddock::TensorView> named;
  const auto infos = model.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) named[infos[i].name] = outputs[i];
  const double least = number_at(model, "/processor/min_score", 0);
  const float *boxes = named.at("boxes").data<float>(), *scores = named.at("scores").data<float>();
  const int64_t count = whole_at(named.at("counts"), 0);
  for (int64_t i = 0; i < count; ++i) {
    if (scores[i] < least) continue;
    const auto name = text_at(model, "/processor/class_names/" + std::to_string(whole_at(named.at("classes"), i)));
    std::printf("%s %.5f", name.c_str(), double(scores[i]));
    print_box(boxes + 4 * i, input.placement, picture);
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
