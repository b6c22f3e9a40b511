// Pictures as a predictor's inputs, and the way back from what it finds to their own pixels.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "predictor/json.h"
#include "predictor/pictures/pipeline.h"

namespace paddock::pictures {

// A picture of the caller's: rows of RGB bytes.
struct GivenPicture {
  int height, width;
  int64_t row_bytes;
  const uint8_t* bytes;
};

class PreparedPictures {
 public:
  // As the exporter's `metadata` say. Of a video classifier the pictures are the frames of one clip.
  PreparedPictures(const predictor::Json& metadata, int64_t pixels, const std::vector<GivenPicture>& given);
  // Objects of one picture, each by its box x1 y1 x2 y2, where the export crops them out.
  PreparedPictures(const predictor::Json& metadata, int64_t pixels, const GivenPicture& given,
                   const std::vector<std::array<float, 4>>& boxes);

  // The input of that name: images [N, H, W, 3], clips [1, T, H, W, 3], sizes int64 [N, 2].
  const Tensor& input(const std::string& name) const;
  const Placement& placement(int picture) const { return of(picture).placement; }

  // Boxes [count, 4] in pixels of the input become boxes of the picture, cut to it; may be the same memory.
  void boxes_back(int picture, const float* boxes, int64_t count, float* back) const;
  // The same of points [count, 2], which are not cut; of an object's crop they are points of its picture.
  void points_back(int picture, const float* points, int64_t count, float* back) const;
  // A class of each pixel of the input [height, width] becomes one of each of the picture's own; 255 where the input
  // does not show it.
  void labels_back(int picture, const uint8_t* labels, int height, int width, uint8_t* back) const;
  // Masks [count, size, size] over boxes of the picture become bitmaps [count, H, W] of its own pixels: 1 where the
  // interpolated mask is `threshold` or more.
  void masks_back(int picture, const float* masks, int64_t count, int size, const float* boxes, double threshold,
                  uint8_t* bitmaps) const;

 private:
  struct Picture {
    int height, width;
    Placement placement;
  };
  PreparedPictures(const predictor::Json& metadata, int64_t pixels, const std::vector<GivenPicture>& given,
                   const std::vector<std::array<float, 4>>* boxes);
  const Picture& of(int picture) const;
  void stack(const Frames& frames, int64_t multiple, int64_t pixels);

  bool is_video_ = false, crops_ = false;
  std::vector<Picture> pictures_;
  Tensor images_, sizes_;
};

}  // namespace paddock::pictures
