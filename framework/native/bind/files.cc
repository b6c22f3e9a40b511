// Many files at once in Python: sizes, ends, digests and plain pictures; see files/many.h.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>

#include "bind/convert.h"
#include "files/blake2b.h"
#include "files/many.h"

namespace paddock {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Longs = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The paths of a call, whose arrays the caller holds, and the places of the files that are looked at.
struct Asked {
  files::Paths paths;
  const int64_t* places;
  int64_t count;

  Asked(nb::bytes root, const Bytes& names, const Longs& ends, const Longs& places)
      : paths{std::string(root.c_str(), root.size()), reinterpret_cast<const char*>(names.data()), ends.data()},
        places(places.data()),
        count(static_cast<int64_t>(places.shape(0))) {
    const auto known = static_cast<int64_t>(ends.shape(0)) - 1, bytes = static_cast<int64_t>(names.shape(0));
    for (int64_t i = 0; i <= known; ++i)
      if (ends.data()[i] < (i == 0 ? 0 : ends.data()[i - 1]) || ends.data()[i] > bytes)
        fail(ErrorKind::kAttribute, "files: end ", i, " of the names is ", ends.data()[i], "; they have ", bytes,
             " bytes");
    for (int64_t i = 0; i < count; ++i)
      if (this->places[i] < 0 || this->places[i] >= known)
        fail(ErrorKind::kAttribute, "files: place ", i, " is ", this->places[i], " of ", known, " files");
  }
};

// A NumPy array [rows, columns] of zeros, or [rows] where `columns` is 0.
template <class T>
nb::object made(int64_t rows, int64_t columns, T** data) {
  auto memory = std::make_unique<T[]>(static_cast<size_t>(rows * std::max<int64_t>(columns, 1)));
  *data = memory.get();
  nb::capsule owner(memory.release(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
  const size_t shape[] = {static_cast<size_t>(rows), static_cast<size_t>(columns)};
  return nb::cast(nb::ndarray<nb::numpy, T>(*data, columns > 0 ? 2 : 1, shape, owner));
}

nb::object sizes(nb::bytes root, Bytes names, Longs ends, Longs places) {
  const Asked asked(root, names, ends, places);
  int64_t* size;
  nb::object out = made(asked.count, 0, &size);
  nb::gil_scoped_release release;
  files::sizes(asked.paths, asked.places, asked.count, size);
  return out;
}

nb::tuple ends_of(nb::bytes root, Bytes names, Longs ends, Longs places, int64_t first, int64_t last) {
  const Asked asked(root, names, ends, places);
  if (first < 0 || last < 0 || first + last == 0) fail(ErrorKind::kAttribute, "files: ends of ", first, " and ", last);
  int64_t* size;
  uint8_t* bytes;
  nb::tuple out = nb::make_tuple(made(asked.count, 0, &size), made(asked.count, first + last, &bytes));
  nb::gil_scoped_release release;
  files::ends(asked.paths, asked.places, asked.count, first, last, size, bytes);
  return out;
}

nb::tuple end_digests(nb::bytes root, Bytes names, Longs ends, Longs places, int64_t end) {
  const Asked asked(root, names, ends, places);
  if (end < 1) fail(ErrorKind::kAttribute, "files: ends of ", end);
  int64_t* size;
  uint8_t* digest;
  nb::tuple out = nb::make_tuple(made(asked.count, 0, &size), made(asked.count, files::Blake2b::kDigest, &digest));
  nb::gil_scoped_release release;
  files::end_digests(asked.paths, asked.places, asked.count, end, size, digest);
  return out;
}

nb::tuple pictures(nb::bytes root, Bytes names, Longs ends, Longs places, int64_t most) {
  const Asked asked(root, names, ends, places);
  int64_t *size, *rows;
  uint8_t* digest;
  nb::tuple out = nb::make_tuple(made(asked.count, 0, &size), made(asked.count, files::Blake2b::kDigest, &digest),
                                 made(asked.count, 4, &rows));
  nb::gil_scoped_release release;
  files::pictures(asked.paths, asked.places, asked.count, most, size, digest, rows);
  return out;
}

}  // namespace

void bind_files(nb::module_& m) {
  const auto root = nb::arg("root");
  const auto names = nb::arg("names").noconvert(), ends = nb::arg("ends").noconvert();
  const auto places = nb::arg("places").noconvert();
  m.def("file_sizes", &sizes, root, names, ends, places, "int64 [P] of the files root/names[ends[p]:ends[p + 1]].");
  m.def("file_ends", &ends_of, root, names, ends, places, nb::arg("first"), nb::arg("last"),
        "(int64 [P] sizes, uint8 [P, first + last]); -1 where a file is not read.");
  m.def("file_end_digests", &end_digests, root, names, ends, places, nb::arg("end"),
        "(int64 [P] sizes, uint8 [P, 16]); -1 where a file is not read.");
  m.def("picture_files", &pictures, root, names, ends, places, nb::arg("most"),
        "(int64 [P] sizes, uint8 [P, 16] digests, int64 [P, 4] height, width, bytes of a pixel, scans); a size is -1 "
        "where a file is not read or has more than `most` bytes, extents are 0 of what is no plain JPEG or PNG.");
}

}  // namespace paddock
