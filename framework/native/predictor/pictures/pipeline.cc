// Each transform as Python's has it: suites/vision/augmentation/transforms.py and its like of single suites.
#include "predictor/pictures/pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "core/error.h"

namespace paddock::pictures {
namespace {

using predictor::Json;
using Kind = Json::Kind;

struct Size {
  int height, width;
};

// The arguments of one transform, by name; each is asked for once.
class Arguments {
 public:
  Arguments(const Json& given, int64_t pixels) : given_(given), pixels_(pixels) {
    const Json* type = given.find("type");
    if (!type || !type->is(Kind::kString)) fail(ErrorKind::kNotSupported, "a transform of the export has no type");
    type_ = type->string();
  }

  const std::string& type() const { return type_; }
  int64_t pixels() const { return pixels_; }

  [[noreturn]] void wrong(const char* name, const std::string& needed) const {
    fail(ErrorKind::kNotSupported, type_, ": ", name, " of the export's transform must be ", needed);
  }

  // Null where it is not given, or null.
  const Json* find(const char* name) {
    asked_.emplace_back(name);
    const Json* found = given_.find(name);
    return found && !found->is(Kind::kNull) ? found : nullptr;
  }

  int whole(const char* name, const Json* v) const {
    if (!v || !v->is(Kind::kInt) || v->whole < 1 || v->whole > pixels_)
      wrong(name, cat("a whole number from 1 to ", pixels_));
    return static_cast<int>(v->whole);
  }
  int whole(const char* name, int otherwise = 0) {
    const Json* v = find(name);
    return v || !otherwise ? whole(name, v) : otherwise;
  }

  // A side, or [height, width].
  Size size(const char* name) {
    const Json* v = find(name);
    Size found{};
    if (v && v->is(Kind::kArray) && v->count == 2)
      found = {whole(name, v->elements), whole(name, v->elements + 1)};
    else
      found.height = found.width = whole(name, v);
    return found;
  }

  bool truth(const char* name, bool otherwise) {
    const Json* v = find(name);
    if (v && !v->is(Kind::kBool)) wrong(name, "true or false");
    return v ? v->truth : otherwise;
  }

  std::array<double, 3> numbers(const char* name, std::array<double, 3> otherwise) {
    const Json* v = find(name);
    if (!v) return otherwise;
    if (!v->is(Kind::kArray) || v->count != 3) wrong(name, "3 numbers");
    for (size_t c = 0; c < 3; ++c) {
      otherwise[c] = number_of(v->elements[c]);
      if (!std::isfinite(otherwise[c])) wrong(name, "3 numbers");
    }
    return otherwise;
  }

  double number(const char* name, double otherwise) {
    const Json* v = find(name);
    const double found = !v ? otherwise : number_of(*v);
    if (!std::isfinite(found)) wrong(name, "a number");
    return found;
  }

  Interpolation interpolation() {
    const Json* v = find("interp");
    const std::string_view name = !v ? "linear" : v->is(Kind::kString) ? v->string() : "no text";
    if (name == "linear") return Interpolation::kLinear;
    if (name == "area") return Interpolation::kArea;
    if (name == "nearest") return Interpolation::kNearest;
    if (name == "cubic") return Interpolation::kCubic;
    fail(ErrorKind::kNotSupported, type_, ": interp '", name.substr(0, 40),
         "' is not done here; nearest, linear, cubic and area are");
  }

  // Refuses arguments that nobody asked for: they would mean something.
  void expect_none_left() const {
    for (const auto* m = given_.members; m != given_.members + given_.count; ++m)
      if (m->name != "type" && m->name != "id" && std::find(asked_.begin(), asked_.end(), m->name) == asked_.end())
        fail(ErrorKind::kNotSupported, type_, ": this library does not know the argument '", m->name.substr(0, 80),
             "' of the export's transform");
  }

 private:
  static double number_of(const Json& n) {
    return n.is(Kind::kInt) ? static_cast<double>(n.whole) : n.is(Kind::kFloat) ? n.real : NAN;
  }

  const Json& given_;
  const int64_t pixels_;
  std::string type_;
  std::vector<std::string> asked_;
};

int scaled(int side, double scale) {
  const double found = std::nearbyint(side * scale);
  return found<1 ? 1 : found>(1 << 30) ? 1 << 30 : static_cast<int>(found);
}

// A step that does the same to each frame.
class EachFrame : public Step {
 public:
  explicit EachFrame(const Arguments& a) : type_(a.type()), pixels_(a.pixels()) {}
  void apply(Frames& frames) const override {
    for (PlacedPixels& frame : frames) change(frame);
  }

 protected:
  virtual void change(PlacedPixels& frame) const = 0;

  void stretch(PlacedPixels& frame, Size to, Interpolation how) const {
    const Pixels& p = frame.pixels;
    if (p.height == to.height && p.width == to.width) return;
    check(to);
    expect_bytes(p);
    const Placement step{static_cast<double>(to.width) / p.width, static_cast<double>(to.height) / p.height, 0, 0};
    frame.pixels = resized(p, to.height, to.width, how);
    frame.placement = frame.placement.then(step);
  }

  void pad(PlacedPixels& frame, Size to, int top, int left, const std::array<double, 3>& fill) const {
    const Pixels& p = frame.pixels;
    if (p.height == to.height && p.width == to.width) return;
    check(to);
    frame.pixels = on_canvas(p, to.height, to.width, top, left, fill);
    frame.placement = frame.placement.then({1, 1, static_cast<double>(left), static_cast<double>(top)});
  }

  void expect_bytes(const Pixels& p) const {
    if (p.is_float())
      fail(ErrorKind::kNotSupported, type_, ": the export has it behind Normalize; it takes a picture of bytes");
  }

  void check(const Size& size) const {
    if (int64_t{size.height} * size.width > pixels_)
      fail(
          ErrorKind::kNotSupported, type_, ": makes a picture of ", size.height, "x", size.width, " (height x width); ",
          pixels_,
          " pixels are allowed. If you trust the export, raise the limit: paddock_options_set(options, \"pixels\", N)");
  }

 private:
  const std::string type_;
  const int64_t pixels_;
};

const std::array<double, 3> kGrey{0.5, 0.5, 0.5}, kMean{0.485, 0.456, 0.406}, kDeviation{0.229, 0.224, 0.225};

class Resize : public EachFrame {
 public:
  explicit Resize(Arguments& a) : EachFrame(a), size_(a.size("size")), how_(a.interpolation()) {}

 private:
  void change(PlacedPixels& frame) const override { stretch(frame, size_, how_); }
  const Size size_;
  const Interpolation how_;
};

class ResizeKeepRatio : public EachFrame {
 public:
  explicit ResizeKeepRatio(Arguments& a)
      : EachFrame(a), short_(a.whole("short")), long_(a.whole("max_long")), how_(a.interpolation()) {
    if (short_ > long_) a.wrong("short", "at most max_long");
  }

 private:
  void change(PlacedPixels& frame) const override {
    const auto [low, high] = std::minmax(frame.pixels.height, frame.pixels.width);
    const double scale = std::min(static_cast<double>(short_) / low, static_cast<double>(long_) / high);
    stretch(frame, {scaled(frame.pixels.height, scale), scaled(frame.pixels.width, scale)}, how_);
  }
  const int short_, long_;
  const Interpolation how_;
};

class ResizeShort : public EachFrame {
 public:
  explicit ResizeShort(Arguments& a) : EachFrame(a), short_(a.whole("size")) {}

 private:
  void change(PlacedPixels& frame) const override {
    const Pixels& p = frame.pixels;
    const double scale = static_cast<double>(short_) / std::min(p.height, p.width);
    const Size to{std::max(short_, scaled(p.height, scale)), std::max(short_, scaled(p.width, scale))};
    const bool shrinks = to.height <= p.height && to.width <= p.width;
    stretch(frame, to, shrinks ? Interpolation::kArea : Interpolation::kLinear);
  }
  const int short_;
};

class Letterbox : public EachFrame {
 public:
  explicit Letterbox(Arguments& a)
      : EachFrame(a),
        size_(a.size("size")),
        fill_(a.numbers("fill", kGrey)),
        centred_(a.truth("centred", true)),
        how_(a.interpolation()) {}

 private:
  void change(PlacedPixels& frame) const override {
    const double scale = std::min(static_cast<double>(size_.height) / frame.pixels.height,
                                  static_cast<double>(size_.width) / frame.pixels.width);
    const Size inner{scaled(frame.pixels.height, scale), scaled(frame.pixels.width, scale)};
    stretch(frame, inner, how_);
    const int top = centred_ ? (size_.height - inner.height) / 2 : 0;
    const int left = centred_ ? (size_.width - inner.width) / 2 : 0;
    pad(frame, size_, top, left, fill_);
  }
  const Size size_;
  const std::array<double, 3> fill_;
  const bool centred_;
  const Interpolation how_;
};

class PadToMultiple : public EachFrame {
 public:
  explicit PadToMultiple(Arguments& a)
      : EachFrame(a), multiple_(a.whole("multiple", 32)), fill_(a.numbers("fill", kGrey)) {}

 private:
  void change(PlacedPixels& frame) const override {
    const auto rounded = [this](int side) {
      return static_cast<int>(std::min<int64_t>((int64_t{side} + multiple_ - 1) / multiple_ * multiple_, 1 << 30));
    };
    pad(frame, {rounded(frame.pixels.height), rounded(frame.pixels.width)}, 0, 0, fill_);
  }
  const int multiple_;
  const std::array<double, 3> fill_;
};

class CenterCrop : public EachFrame {
 public:
  explicit CenterCrop(Arguments& a) : EachFrame(a), size_(a.size("size")) {}

 private:
  void change(PlacedPixels& frame) const override {
    const Pixels& p = frame.pixels;
    if (size_.height > p.height || size_.width > p.width)
      fail(ErrorKind::kShape, "CenterCrop: the picture is ", p.height, "x", p.width,
           " (height x width) by then, smaller than the crop ", size_.height, "x", size_.width);
    const int top = (p.height - size_.height) / 2, left = (p.width - size_.width) / 2;
    frame.pixels = part_of(p, size_.height, size_.width, top, left);
    frame.placement = frame.placement.then({1, 1, static_cast<double>(-left), static_cast<double>(-top)});
  }
  const Size size_;
};

// The box of an object, upright, grown to the aspect ratio of one size.
class ObjectCrop : public EachFrame {
 public:
  explicit ObjectCrop(Arguments& a) : EachFrame(a), size_(a.size("size")), padding_(a.number("padding", 1.25)) {
    if (padding_ <= 0) a.wrong("padding", "above 0");
    for (const char* random : {"scale", "shift", "degrees"})
      if (a.number(random, 0) != 0) a.wrong(random, "0 where nothing is drawn at random");
  }

 private:
  void change(PlacedPixels& frame) const override {
    const Placement& before = frame.placement;
    if (before.ax != 1 || before.ay != 1 || before.bx != 0 || before.by != 0)
      fail(ErrorKind::kNotSupported, "ObjectCrop: the export has it behind another step that moves pixels");
    expect_bytes(frame.pixels);
    check(size_);
    const auto [x1, y1, x2, y2] = frame.box;
    const double tall = (y2 - y1) / size_.height, wide = (x2 - x1) / size_.width;
    const double scale = 1 / (std::max({tall, wide, 1e-3}) * padding_);
    const double x = scale * ((x1 + x2) / 2), y = scale * ((y1 + y2) / 2);
    const Placement step{scale, scale, size_.width / 2.0 - x, size_.height / 2.0 - y};
    frame.pixels = warped(frame.pixels, size_.height, size_.width, {step.ax, 0, step.bx, 0, step.ay, step.by});
    frame.placement = step;
  }
  const Size size_;
  const double padding_;
};

class Normalize : public EachFrame {
 public:
  explicit Normalize(Arguments& a)
      : EachFrame(a),
        mean_(a.numbers("mean", kMean)),
        deviation_(a.numbers("std", kDeviation)),
        bgr_(a.truth("bgr", false)) {
    if (*std::min_element(deviation_.begin(), deviation_.end()) <= 0) a.wrong("std", "above 0");
  }

 private:
  void change(PlacedPixels& frame) const override {
    expect_bytes(frame.pixels);
    frame.pixels = normalised(frame.pixels, mean_, deviation_, bgr_);
  }
  const std::array<double, 3> mean_, deviation_;
  const bool bgr_;
};

// Frames in a row become how they differ from those before.
class FrameDifferences : public Step {
 public:
  explicit FrameDifferences(Arguments& a) : length_(a.whole("length", 2)) {
    if (length_ < 2) a.wrong("length", "2 or more");
  }
  void apply(Frames& frames) const override {
    const auto length = static_cast<size_t>(length_);
    if (frames.empty() || frames.size() % length || !frames[0].pixels.is_float())
      fail(ErrorKind::kShape, "FrameDifferences: takes a number of frames that is a multiple of ", length_,
           ", behind Normalize; there are ", frames.size());
    Frames found;
    for (size_t i = 0; i < frames.size(); ++i) {
      if (i % length == 0) continue;
      PlacedPixels made = frames[i];
      const auto& before = frames[i - 1].pixels.floats;
      for (size_t k = 0; k < before.size(); ++k) made.pixels.floats[k] -= before[k];
      found.push_back(std::move(made));
    }
    frames = std::move(found);
  }

 private:
  const int length_;
};

template <class T>
std::unique_ptr<Step> made(Arguments& a) {
  return std::make_unique<T>(a);
}

constexpr std::pair<const char*, std::unique_ptr<Step> (*)(Arguments&)> kSteps[] = {
    {"Resize", made<Resize>},       {"ResizeKeepRatio", made<ResizeKeepRatio>},   {"ResizeShort", made<ResizeShort>},
    {"Letterbox", made<Letterbox>}, {"PadToMultiple", made<PadToMultiple>},       {"CenterCrop", made<CenterCrop>},
    {"Normalize", made<Normalize>}, {"FrameDifferences", made<FrameDifferences>}, {"ObjectCrop", made<ObjectCrop>},
};

std::unique_ptr<Step> step_of(const Json& given, int64_t pixels) {
  Arguments a(given, pixels);
  for (const auto& [name, make] : kSteps)
    if (a.type() == name) {
      auto step = make(a);
      a.expect_none_left();
      return step;
    }
  fail(ErrorKind::kNotSupported, "the export prepares pictures by ", a.type().substr(0, 80),
       ", which this library does not do; prepare them yourself");
}

}  // namespace

std::vector<std::unique_ptr<Step>> steps_of(const Json& transforms, int64_t pixels) {
  if (!transforms.is(Kind::kArray)) fail(ErrorKind::kNotSupported, "the transforms of the export are no list");
  std::vector<std::unique_ptr<Step>> steps;
  for (const Json* t = transforms.items_begin(); t != transforms.items_end(); ++t) steps.push_back(step_of(*t, pixels));
  return steps;
}

}  // namespace paddock::pictures
