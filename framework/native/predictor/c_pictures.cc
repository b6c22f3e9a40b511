// paddock.h's pictures: arguments are checked, exceptions become statuses.
#include <cstring>

#include "image/heatmaps.h"
#include "predictor/prepared_handle.h"

using paddock::c_api::bad_argument;
using paddock::c_api::expect;
using paddock::c_api::guarded;
using paddock::pictures::PreparedPictures;

namespace {

// A number above 0 of what the export says of its heatmaps.
double of_reader(const paddock_predictor* p, const char* name) {
  using paddock::predictor::Json;
  const Json* found = p->self->metadata().at(std::string("/processor/reader/") + name);
  const bool whole = found && found->is(Json::Kind::kInt);
  if (!whole && !(found && found->is(Json::Kind::kFloat)))
    paddock::fail(paddock::ErrorKind::kNotSupported, "the export states no ", name,
                  " of heatmaps (/processor/reader); models of keypoints that give heatmaps do");
  return whole ? static_cast<double>(found->whole) : found->real;
}

// Boxes or points of a picture's input, led back to the picture by `work`.
template <class Work>
paddock_status led_back(Work work, const paddock_prepared* prepared, int32_t picture, const float* given,
                        const char* what, int64_t count, float* back) {
  return guarded([&] {
    expect(prepared, "prepared");
    if (count < 0) bad_argument("count is ", count);
    if (!count) return;
    expect(given, what);
    expect(back, "back");
    (prepared->pictures().*work)(picture, given, count, back);
  });
}

}  // namespace

extern "C" {

paddock_status paddock_prepare(paddock_predictor* p, const paddock_picture* pictures, int32_t count,
                               paddock_prepared** prepared) {
  return guarded([&] {
    expect(prepared, "prepared");
    *prepared = nullptr;
    expect(p, "predictor");
    std::vector<paddock::pictures::GivenPicture> given;
    paddock::c_api::each_given(pictures, count, "pictures", [&](const paddock_picture& picture) {
      given.push_back({picture.height, picture.width, picture.row_bytes, picture.pixels});
    });
    PreparedPictures made(p->self->metadata(), p->self->pixel_limit(), given);
    *prepared = new paddock_prepared{std::move(made), paddock::c_api::input_names(p)};
  });
}

paddock_status paddock_prepare_objects(paddock_predictor* p, const paddock_picture* picture, const float* boxes,
                                       int32_t count, paddock_prepared** prepared) {
  return guarded([&] {
    expect(prepared, "prepared");
    *prepared = nullptr;
    expect(p, "predictor");
    expect(boxes, "boxes");
    if (count < 1) bad_argument("count is ", count, "; there must be a box");
    paddock::pictures::GivenPicture given{};
    paddock::c_api::each_given(picture, 1, "picture", [&](const paddock_picture& one) {
      given = {one.height, one.width, one.row_bytes, one.pixels};
    });
    std::vector<std::array<float, 4>> list(static_cast<size_t>(count));
    std::memcpy(list.data(), boxes, list.size() * sizeof list[0]);
    PreparedPictures made(p->self->metadata(), p->self->pixel_limit(), given, list);
    *prepared = new paddock_prepared{std::move(made), paddock::c_api::input_names(p)};
  });
}

void paddock_prepared_free(paddock_prepared* prepared) { delete prepared; }

paddock_status paddock_prepared_input(const paddock_prepared* prepared, int32_t index, paddock_tensor* input) {
  return guarded([&] {
    expect(prepared, "prepared");
    if (index < 0 || static_cast<size_t>(index) >= prepared->inputs.size())
      bad_argument("there is no input ", index, "; the model has ", prepared->inputs.size());
    const std::string& name = prepared->inputs[static_cast<size_t>(index)];
    std::visit([&](const auto& self) { paddock::c_api::fill_tensor(input, self.input(name), "input"); },
               prepared->self);
  });
}

paddock_status paddock_boxes_back(const paddock_prepared* prepared, int32_t picture, const float* boxes, int64_t count,
                                  float* back) {
  return led_back(&PreparedPictures::boxes_back, prepared, picture, boxes, "boxes", count, back);
}

paddock_status paddock_points_back(const paddock_prepared* prepared, int32_t picture, const float* points,
                                   int64_t count, float* back) {
  return led_back(&PreparedPictures::points_back, prepared, picture, points, "points", count, back);
}

paddock_status paddock_decode_heatmaps(const paddock_predictor* p, const paddock_tensor* heatmaps, float* points,
                                       float* scores) {
  return guarded([&] {
    expect(p, "predictor");
    expect(heatmaps, "heatmaps");
    if (heatmaps->struct_size < sizeof *heatmaps)
      bad_argument("heatmaps->struct_size is ", heatmaps->struct_size, "; set it to sizeof");
    const paddock::Tensor maps = paddock::c_api::tensor_of(*heatmaps, "heatmaps");
    if (maps.dtype() != paddock::DType::kF32)
      paddock::fail(paddock::ErrorKind::kDType, "heatmaps are ", maps.dtype(), "; expected float32 [N, H, W, L]");
    if (maps.shape().rank() != 4)
      paddock::fail(paddock::ErrorKind::kShape, "heatmaps are ", maps.shape(), "; expected [N, H, W, L]");
    const double stride = of_reader(p, "stride"), sigma = of_reader(p, "sigma");
    const int64_t height = maps.shape()[1], width = maps.shape()[2], count = maps.shape()[3];
    if (!maps.shape()[0] || !count) return;
    expect(points, "points");
    expect(scores, "scores");
    for (int64_t n = 0; n < maps.shape()[0]; ++n)
      paddock::image::decode_heatmaps({maps.data<float>() + n * height * width * count, height, width, count}, stride,
                                      sigma, points + n * count * 2, scores + n * count);
  });
}

paddock_status paddock_labels_back(const paddock_prepared* prepared, int32_t picture, const uint8_t* labels,
                                   int32_t height, int32_t width, uint8_t* back) {
  return guarded([&] {
    expect(prepared, "prepared");
    expect(labels, "labels");
    expect(back, "back");
    prepared->pictures().labels_back(picture, labels, height, width, back);
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
    prepared->pictures().masks_back(picture, masks, count, size, boxes, threshold, bitmaps);
  });
}

}  // extern "C"
