// Pictures in Python: what is resized and cropped by definitions of our own; see image/cubic.h and image/warp.h.
#include <nanobind/ndarray.h>

#include <memory>

#include "bind/convert.h"
#include "image/heatmaps.h"
#include "image/warp.h"

namespace paddock {
namespace {

using Picture = nb::ndarray<const uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;
using Maps = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Map = nb::ndarray<const double, nb::shape<2, 3>, nb::c_contig, nb::device::cpu>;

constexpr int64_t kMostSide = 1 << 24;

// A NumPy array of `shape` in memory that it then owns.
template <class T>
nb::object owned(std::unique_ptr<T[]> memory, std::initializer_list<size_t> shape) {
  T* const data = memory.get();
  nb::capsule owner(memory.release(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
}

// A NumPy array [height, width, 3] that `draw` fills from the picture, without the interpreter's lock.
template <class Draw>
nb::object drawn(const char* who, const Picture& picture, int64_t height, int64_t width, Draw&& draw) {
  const image::View from{picture.data(), static_cast<int64_t>(picture.shape(0)), static_cast<int64_t>(picture.shape(1)),
                         static_cast<int64_t>(picture.shape(1)) * 3};
  for (const int64_t side : {from.height, from.width, height, width})
    if (side < 1 || side > kMostSide)
      fail(ErrorKind::kShape, who, ": from ", from.height, "x", from.width, " to ", height, "x", width,
           " (height x width); sides are 1 to ", kMostSide, " pixels");
  const auto rows = static_cast<size_t>(height), columns = static_cast<size_t>(width);
  std::unique_ptr<uint8_t[]> memory(new uint8_t[rows * columns * 3]);
  {
    nb::gil_scoped_release release;
    draw(from, memory.get());
  }
  return owned(std::move(memory), {rows, columns, 3});
}

nb::object resize_cubic(Picture picture, int64_t height, int64_t width) {
  return drawn("resize_cubic", picture, height, width,
               [&](const image::View& from, uint8_t* to) { image::resize_cubic(from, to, height, width); });
}

nb::object warp_affine(Picture picture, Map map, int64_t height, int64_t width) {
  return drawn("warp_affine", picture, height, width,
               [&](const image::View& from, uint8_t* to) { image::warp_affine(from, map.data(), to, height, width); });
}

nb::object decode_heatmaps(Maps maps, double stride, double sigma) {
  const size_t inputs = maps.shape(0), count = maps.shape(3);
  std::unique_ptr<float[]> points(new float[inputs * count * 2]), scores(new float[inputs * count]);
  {
    nb::gil_scoped_release release;
    const size_t cells = maps.shape(1) * maps.shape(2) * count;
    const auto side = [&](size_t axis) { return static_cast<int64_t>(maps.shape(axis)); };
    for (size_t n = 0; n < inputs; ++n)
      image::decode_heatmaps({maps.data() + n * cells, side(1), side(2), side(3)}, stride, sigma,
                             points.get() + n * count * 2, scores.get() + n * count);
  }
  return nb::make_tuple(owned(std::move(points), {inputs, count, 2}), owned(std::move(scores), {inputs, count}));
}

}  // namespace

void bind_pictures(nb::module_& m) {
  const auto image = nb::arg("image").noconvert();
  const auto height = nb::arg("height"), width = nb::arg("width");
  m.def("resize_cubic", &resize_cubic, image, height, width, "uint8 [height, width, 3] of a picture uint8 [H, W, 3].");
  m.def("warp_affine", &warp_affine, image, nb::arg("map").noconvert(), height, width,
        "What a picture uint8 [H, W, 3] shows through the float64 map [2, 3] of its points, uint8 [height, width, 3].");
  m.def("decode_heatmaps", &decode_heatmaps, nb::arg("heatmaps").noconvert(), nb::arg("stride"), nb::arg("sigma"),
        "Points float32 [N, L, 2] and scores [N, L] of heatmaps float32 [N, H, W, L].");
}

}  // namespace paddock
