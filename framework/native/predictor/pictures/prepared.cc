// What the processors of Python's suites do around a network of pictures.
#include "predictor/pictures/prepared.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "op/op.h"

namespace paddock::pictures {
namespace {

using predictor::Json;
using Kind = Json::Kind;

constexpr uint8_t kNoLabel = 255;
constexpr float kFarthest = 1 << 24;  // of a box, in pixels

// Parts of a processor that decide what a network is shown and are not done here.
constexpr const char* kBeyond[] = {"views", "windows", "modalities", "kind", "tokenizer"};

std::string text_at(const Json& of, const char* name) {
  const Json* found = of.find(name);
  return found && found->is(Kind::kString) ? std::string(found->string()) : std::string();
}

const Json& processor_of(const Json& metadata) {
  const Json* found = metadata.find("processor");
  if (!found || !found->find("transforms"))
    fail(ErrorKind::kNotSupported, "the export states no preparation of pictures (/processor/transforms)");
  for (const char* part : kBeyond)
    if (const Json* there = found->find(part); there && !there->is(Kind::kNull))
      fail(ErrorKind::kNotSupported, "the export prepares pictures with '", part,
           "', which this library does not do; prepare them yourself");
  return *found;
}

// Canvases have sides that are multiples of it; 0 where all pictures must be of one size.
int64_t multiple_of(const Json& processor, int64_t pixels) {
  const Json* found = processor.find("padded_to");
  if (!found || found->is(Kind::kNull)) return 0;
  if (!found->is(Kind::kInt) || found->whole < 1 || found->whole > pixels)
    fail(ErrorKind::kNotSupported, "padded_to of the export is no whole number above 0");
  return found->whole;
}

Pixels copied(const GivenPicture& given) {
  Pixels made(given.height, given.width, false);
  for (int y = 0; y < given.height; ++y)
    std::memcpy(made.bytes.data() + static_cast<size_t>(y) * made.row(), given.bytes + y * given.row_bytes, made.row());
  return made;
}

void check(const GivenPicture& given, size_t number, int64_t pixels) {
  if (given.height < 1 || given.width < 1 || int64_t{given.height} * given.width > pixels)
    fail(ErrorKind::kShape, "picture ", number, " is ", given.height, "x", given.width, " (height x width); 1 to ",
         pixels, " pixels are allowed (option pixels)");
  if (!given.bytes) fail(ErrorKind::kAttribute, "picture ", number, " has no pixels");
  if (given.row_bytes < int64_t{3} * given.width)
    fail(ErrorKind::kShape, "picture ", number, ": its row_bytes are ", given.row_bytes, "; a row has ",
         3 * given.width);
}

std::array<double, 4> whole_box(const GivenPicture& given) {
  return {0, 0, static_cast<double>(given.width), static_cast<double>(given.height)};
}

std::array<double, 4> box_of(const std::array<float, 4>& given, size_t number) {
  for (const float v : given)
    if (!std::isfinite(v) || std::abs(v) > kFarthest)
      fail(ErrorKind::kAttribute, "box ", number, " has the coordinate ", v, "; ", -kFarthest, " to ", kFarthest,
           " are possible");
  return {given[0], given[1], given[2], given[3]};
}

}  // namespace

PreparedPictures::PreparedPictures(const Json& metadata, int64_t pixels, const std::vector<GivenPicture>& given)
    : PreparedPictures(metadata, pixels, given, nullptr) {}

PreparedPictures::PreparedPictures(const Json& metadata, int64_t pixels, const GivenPicture& given,
                                   const std::vector<std::array<float, 4>>& boxes)
    : PreparedPictures(metadata, pixels, std::vector<GivenPicture>(boxes.size(), given), &boxes) {}

PreparedPictures::PreparedPictures(const Json& metadata, int64_t pixels, const std::vector<GivenPicture>& given,
                                   const std::vector<std::array<float, 4>>* boxes) {
  const Json& processor = processor_of(metadata);
  const auto steps = steps_of(*processor.find("transforms"), pixels);
  const int64_t multiple = multiple_of(processor, pixels);
  const std::string suite = text_at(metadata, "suite");
  is_video_ = suite == "video";
  crops_ = suite == "keypoints";
  if (boxes && !crops_)
    fail(ErrorKind::kNotSupported, "the export takes whole pictures; boxes of objects are for models of keypoints");
  if (given.empty()) fail(ErrorKind::kAttribute, "there is no picture");
  Frames all, clip;
  for (size_t i = 0; i < given.size(); ++i) {
    check(given[i], i, pixels);
    if (is_video_ && (given[i].height != given[0].height || given[i].width != given[0].width))
      fail(ErrorKind::kShape, "frame ", i, " of the clip has another size than the first");
    pictures_.push_back({given[i].height, given[i].width, {}});
    clip.push_back({copied(given[i]), {}, boxes ? box_of((*boxes)[i], i) : whole_box(given[i])});
    if (is_video_) continue;
    for (const auto& step : steps) step->apply(clip);
    pictures_.back().placement = clip[0].placement;
    all.push_back(std::move(clip[0]));
    clip.clear();
  }
  if (is_video_) {
    for (const auto& step : steps) step->apply(clip);
    all = std::move(clip);
    for (auto& picture : pictures_) picture.placement = all[0].placement;
  }
  stack(all, multiple, pixels);
}

void PreparedPictures::stack(const Frames& frames, int64_t multiple, int64_t pixels) {
  const Pixels& first = frames[0].pixels;
  for (size_t i = 0; i < frames.size(); ++i) {  // padded ones would be seen as other pictures than alone
    const Pixels& p = frames[i].pixels;
    if (p.height != first.height || p.width != first.width)
      fail(ErrorKind::kShape, "picture ", i, " is ", p.height, "x", p.width, " after its transforms, the first one ",
           first.height, "x", first.width, "; give pictures of one size, or one at a time");
  }
  const int64_t m = std::max<int64_t>(multiple, 1), count = static_cast<int64_t>(frames.size());
  const int64_t height = (first.height + m - 1) / m * m, width = (first.width + m - 1) / m * m;
  if (height * width > pixels)
    fail(ErrorKind::kNotSupported, "padded_to of the export makes pictures of ", height, "x", width,
         " (height x width); ", pixels, " pixels are allowed (option pixels)");
  const bool is_float = first.is_float();
  Shape shape{count, height, width, 3};
  if (is_video_) shape = Shape{1, count, height, width, 3};
  images_ = Tensor(TensorType{shape, is_float ? DType::kF32 : DType::kU8});
  sizes_ = Tensor(TensorType{Shape{count, 2}, DType::kI64});
  std::memset(images_.raw(), 0, static_cast<size_t>(images_.bytes()));
  const size_t size = is_float ? sizeof(float) : 1;
  auto* to = static_cast<char*>(images_.raw());
  for (int64_t i = 0; i < count; ++i) {
    const Pixels& p = frames[static_cast<size_t>(i)].pixels;
    const char* from =
        is_float ? reinterpret_cast<const char*>(p.floats.data()) : reinterpret_cast<const char*>(p.bytes.data());
    for (int y = 0; y < p.height; ++y)
      std::memcpy(to + static_cast<size_t>((i * height + y) * width) * 3 * size,
                  from + static_cast<size_t>(y) * p.row() * size, p.row() * size);
    auto* true_size = static_cast<int64_t*>(sizes_.raw()) + 2 * i;
    true_size[0] = p.height;
    true_size[1] = p.width;
  }
}

const Tensor& PreparedPictures::input(const std::string& name) const {
  if (name == (is_video_ ? "clips" : "images")) return images_;
  if (name == "sizes" && !is_video_) return sizes_;
  fail(ErrorKind::kNotSupported, "pictures do not give the input '", name, "' of this model");
}

const PreparedPictures::Picture& PreparedPictures::of(int picture) const {
  if (picture < 0 || static_cast<size_t>(picture) >= pictures_.size())
    fail(ErrorKind::kAttribute, "there is no picture ", picture, "; there are ", pictures_.size());
  return pictures_[static_cast<size_t>(picture)];
}

void PreparedPictures::boxes_back(int picture, const float* boxes, int64_t count, float* back) const {
  const Picture& p = of(picture);
  const Placement way = p.placement.inverse();
  const float scale[] = {static_cast<float>(way.ax), static_cast<float>(way.ay)};
  const float shift[] = {static_cast<float>(way.bx), static_cast<float>(way.by)};
  const float most[] = {static_cast<float>(p.width), static_cast<float>(p.height)};
  for (int64_t i = 0; i < count; ++i, boxes += 4, back += 4)
    for (int axis = 0; axis < 2; ++axis) {
      const auto moved = [&](float v) {
        const float scaled = v * scale[axis];
        const float placed = scaled + shift[axis];
        return placed < 0 ? 0.f : placed > most[axis] ? most[axis] : placed;  // no number stays none
      };
      const float a = moved(boxes[axis]), b = moved(boxes[axis + 2]);
      back[axis] = b < a ? b : a;
      back[axis + 2] = b < a ? a : b;
    }
}

void PreparedPictures::points_back(int picture, const float* points, int64_t count, float* back) const {
  const Placement &there = of(picture).placement, way = there.inverse();
  if (crops_) {  // by the rule of suites/keypoints/sample.py, for a map that does not turn
    const double det = there.ax * there.ay;
    for (int64_t i = 0; i < count; ++i, points += 2, back += 2) {
      const double x = there.ay * (points[0] - there.bx), y = there.ax * (points[1] - there.by);
      back[0] = static_cast<float>(x / det);
      back[1] = static_cast<float>(y / det);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i, points += 2, back += 2) {
    const double x = points[0] * way.ax, y = points[1] * way.ay;
    back[0] = static_cast<float>(x + way.bx);
    back[1] = static_cast<float>(y + way.by);
  }
}

void PreparedPictures::labels_back(int picture, const uint8_t* labels, int height, int width, uint8_t* back) const {
  if (height < 1 || width < 1) fail(ErrorKind::kShape, "the labels are ", height, "x", width);
  const Picture& p = of(picture);
  const Placement& way = p.placement;
  // Pixels are squares: the centre of column i is at i + 1/2.
  const auto places = [](int count, double scale, double shift) {
    std::vector<int64_t> list(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const double scaled = scale * (i + 0.5);
      list[static_cast<size_t>(i)] = static_cast<int64_t>(std::floor(scaled + shift));
    }
    return list;
  };
  const auto columns = places(p.width, way.ax, way.bx), rows = places(p.height, way.ay, way.by);
  for (const int64_t y : rows)
    for (const int64_t x : columns)
      *back++ = y >= 0 && y < height && x >= 0 && x < width ? labels[y * width + x] : kNoLabel;
}

void PreparedPictures::masks_back(int picture, const float* masks, int64_t count, int size, const float* boxes,
                                  double threshold, uint8_t* bitmaps) const {
  const Picture& p = of(picture);
  if (count < 0 || size < 1 || size > 4096) fail(ErrorKind::kShape, "there are ", count, " masks of size ", size);
  const auto view = [](const void* data, const Shape& shape) {
    const TensorType type{shape, DType::kF32};
    return Tensor(type, std::make_shared<Storage>(const_cast<void*>(data), static_cast<size_t>(type.bytes()), [] {}),
                  0);
  };
  const OpDef& op = find_op("paste_masks");
  std::vector<AttrValue> attrs(op.attrs.size());
  const auto set = [&](const char* name, auto value) { attrs[static_cast<size_t>(op.attr_index(name))] = value; };
  set("height", int64_t{p.height});
  set("width", int64_t{p.width});
  set("threshold", threshold);
  for (int64_t i = 0; i < count; ++i) {  // one at a time: its bitmap is as large as the picture
    const auto found = run_op(op, {view(masks + i * size * size, {1, size, size}), view(boxes + 4 * i, {1, 4})}, attrs);
    std::memcpy(bitmaps + i * p.height * p.width, found[0].raw(), static_cast<size_t>(found[0].bytes()));
  }
}

}  // namespace paddock::pictures
