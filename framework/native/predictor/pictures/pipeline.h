// The transforms of evaluation that an export's metadata name, on pictures that the caller has decoded.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "predictor/json.h"
#include "predictor/pictures/pixels.h"

namespace paddock::pictures {

// Where a picture lies in another: its point (x, y) is at (ax * x + bx, ay * y + by).
struct Placement {
  double ax = 1, ay = 1, bx = 0, by = 0;

  Placement then(const Placement& second) const {
    return {second.ax * ax, second.ay * ay, second.ax * bx + second.bx, second.ay * by + second.by};
  }
  Placement inverse() const { return {1 / ax, 1 / ay, -bx / ax, -by / ay}; }
};

// A picture on its way, with what led there.
struct PlacedPixels {
  Pixels pixels;
  Placement placement;
  std::array<double, 4> box;  // x1 y1 x2 y2 of the object that is looked at, in the picture as it came
};

// One clip's frames, or one picture alone, changed alike.
using Frames = std::vector<PlacedPixels>;

// One transform with its arguments, checked.
class Step {
 public:
  virtual ~Step() = default;
  virtual void apply(Frames& frames) const = 0;
};

// `transforms`: the list as configs write it. `pixels`: how many a picture may have on the way. Throws Error of kind
// kNotSupported for a transform that is not done here, or whose arguments are none.
std::vector<std::unique_ptr<Step>> steps_of(const predictor::Json& transforms, int64_t pixels);

}  // namespace paddock::pictures
