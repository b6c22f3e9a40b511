// What shape rules of operators on boxes share. A box is 4 coordinates, x1 y1 x2 y2.
#pragma once
#include "op/context.h"

namespace paddock {

inline constexpr int64_t kCoordinates = 4;

inline void expect_boxes(const InferContext& c, const char* name) {
  c.expect_rank_at_least(name, 1);
  if (c.shape(name).back() != kCoordinates)
    c.shape_error(name, " of shape ", c.shape(name), " must end in 4 coordinates, x1, y1, x2, y2");
}

// An attribute that counts something.
inline void expect_positive(const InferContext& c, const char* attr) {
  const auto value = c.attr<int64_t>(attr);
  if (value < 1) c.attr_error(attr, " is ", value, " but must be at least 1");
}

// An attribute that is a share of something.
inline void expect_share(const InferContext& c, const char* attr) {
  const auto value = c.attr<double>(attr);
  if (!(value >= 0 && value <= 1)) c.attr_error(attr, " is ", value, " but must lie in [0, 1]");
}

inline constexpr const char* kIouDoc = "A box that overlaps a better one by more than this is suppressed, in [0, 1].";

// The true heights and widths of N images: `sizes` [N, 2], int32 or int64.
inline void expect_sizes(const InferContext& c, int64_t images) {
  c.expect_index("sizes");
  c.expect_shape("sizes", {images, 2});
}

// The attributes that both directions of box coding read.
inline constexpr const char* kWeightsDoc = "Factors of dx, dy, dw and dh: 4 numbers other than 0.";

inline void expect_weights(const InferContext& c) {
  const auto weights = c.attr<std::vector<double>>("weights");
  if (weights.size() != kCoordinates) c.attr_error("weights has ", weights.size(), " numbers but takes 4");
  for (double w : weights)
    if (!(w > 0 || w < 0)) c.attr_error("weights holds ", w, " but takes numbers other than 0");
}

inline constexpr double kMaxLogScale = 4.135166556742356;  // log(1000 / 16)
inline constexpr const char* kMaxLogScaleDoc =
    "dw / weight and dh / weight count as this where they are larger, so that an untrained network gives finite boxes; "
    "log(1000 / 16) by default.";

}  // namespace paddock
