// paddock.h's pictures: arguments are checked, exceptions become statuses.
#include <vector>

#include "predictor/guarded.h"
#include "predictor/pictures/prepared.h"

using paddock::c_api::bad_argument;
using paddock::c_api::expect;
using paddock::c_api::guarded;

struct paddock_prepared {
  paddock::pictures::PreparedPictures self;
  std::vector<std::string> inputs;  // of the predictor, by name
};

extern "C" {

paddock_status paddock_prepare(paddock_predictor* p, const paddock_picture* pictures, int32_t count,
                               paddock_prepared** prepared) {
  return guarded([&] {
    expect(prepared, "prepared");
    *prepared = nullptr;
    expect(p, "predictor");
    expect(pictures, "pictures");
    if (count < 1) bad_argument("count is ", count, "; there must be a picture");
    const uint32_t step = pictures->struct_size;  // of the header that the caller was compiled with
    if (step < sizeof(paddock_picture)) bad_argument("pictures[0].struct_size is ", step, "; set it to sizeof");
    std::vector<paddock::pictures::GivenPicture> given;
    const auto* at = reinterpret_cast<const char*>(pictures);
    for (int32_t i = 0; i < count; ++i, at += step) {
      const auto& picture = *reinterpret_cast<const paddock_picture*>(at);
      if (picture.struct_size != step)
        bad_argument("pictures[", i, "].struct_size is ", picture.struct_size, "; set it to sizeof");
      given.push_back({picture.height, picture.width, picture.row_bytes, picture.pixels});
    }
    std::vector<std::string> names;
    for (const auto& input : p->self->inputs()) names.push_back(input.name);
    *prepared = new paddock_prepared{{p->self->metadata(), p->self->pixel_limit(), given}, std::move(names)};
  });
}

void paddock_prepared_free(paddock_prepared* prepared) { delete prepared; }

paddock_status paddock_prepared_input(const paddock_prepared* prepared, int32_t index, paddock_tensor* input) {
  return guarded([&] {
    expect(prepared, "prepared");
    if (index < 0 || static_cast<size_t>(index) >= prepared->inputs.size())
      bad_argument("there is no input ", index, "; the model has ", prepared->inputs.size());
    paddock::c_api::fill_tensor(input, prepared->self.input(prepared->inputs[static_cast<size_t>(index)]), "input");
  });
}

paddock_status paddock_boxes_back(const paddock_prepared* prepared, int32_t picture, const float* boxes, int64_t count,
                                  float* back) {
  return guarded([&] {
    expect(prepared, "prepared");
    if (count < 0) bad_argument("count is ", count);
    if (!count) return;
    expect(boxes, "boxes");
    expect(back, "back");
    prepared->self.boxes_back(picture, boxes, count, back);
  });
}

paddock_status paddock_points_back(const paddock_prepared* prepared, int32_t picture, const float* points,
                                   int64_t count, float* back) {
  return guarded([&] {
    expect(prepared, "prepared");
    if (count < 0) bad_argument("count is ", count);
    if (!count) return;
    expect(points, "points");
    expect(back, "back");
    prepared->self.points_back(picture, points, count, back);
  });
}

paddock_status paddock_labels_back(const paddock_prepared* prepared, int32_t picture, const uint8_t* labels,
                                   int32_t height, int32_t width, uint8_t* back) {
  return guarded([&] {
    expect(prepared, "prepared");
    expect(labels, "labels");
    expect(back, "back");
    prepared->self.labels_back(picture, labels, height, width, back);
  });
}

paddock_status paddock_masks_back(const paddock_prepared* prepared, int32_t picture, const float* masks, int64_t count,
                                  int32_t size, const float* boxes, double threshold, uint8_t* bitmaps) {
  return guarded([&] {
    expect(prepared, "prepared");
    if (count < 0) bad_argument("count is ", count);
    if (!count) return;
    expect(masks, "masks");
    expect(boxes, "boxes");
    expect(bitmaps, "bitmaps");
    prepared->self.masks_back(picture, masks, count, size, boxes, threshold, bitmaps);
  });
}

}  // extern "C"
