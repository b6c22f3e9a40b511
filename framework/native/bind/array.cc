// The Array class: a native tensor as Python sees it, with zero-copy NumPy and DLPack both ways.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>

#include "bind/convert.h"

namespace paddock {
namespace {

// DLPack type codes; NumPy gets bfloat16 as uint16 bits, which it can view as the type of ml_dtypes.
nb::dlpack::dtype to_dlpack(DType t, bool numpy) {
  using nb::dlpack::dtype_code;
  auto bits = static_cast<uint8_t>(dtype_size(t) * 8);
  auto make = [&](dtype_code code) { return nb::dlpack::dtype{static_cast<uint8_t>(code), bits, 1}; };
  switch (t) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
      return make(dtype_code::Float);
    case DType::kBF16:
      return make(numpy ? dtype_code::UInt : dtype_code::Bfloat);
    case DType::kU8:
      return make(dtype_code::UInt);
    case DType::kBool:
      return make(dtype_code::Bool);
    default:
      return make(dtype_code::Int);
  }
}

DType from_dlpack(nb::dlpack::dtype d) {
  for (int i = 0; i < kDTypeCount; ++i) {
    auto t = static_cast<DType>(i);
    auto same = to_dlpack(t, false);
    if (same.code == d.code && same.bits == d.bits && d.lanes == 1) return t;
  }
  fail(ErrorKind::kDType, "from_array: element type (code ", int{d.code}, ", ", int{d.bits},
       " bits) has no counterpart; convert to float32, float64, float16, int8, uint8, int32, int64 or bool "
       "first");
}

using ForeignArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

// Shares the memory of a C-contiguous CPU array and keeps it alive; copies it where elements do not lie at multiples of
// their size, such as in a message of the network. `bits_of` names the type whose bits an unsigned array holds: NumPy
// exports no bfloat16.
Tensor wrap(ForeignArray array, const std::string& bits_of) {
  TensorType type;
  type.dtype = bits_of.empty() ? from_dlpack(array.dtype()) : dtype_from_name(bits_of, "from_array");
  if (dtype_size(type.dtype) * 8 != array.dtype().bits)
    fail(ErrorKind::kDType, "from_array: ", int{array.dtype().bits}, " bits are no ", bits_of);
  for (size_t i = 0; i < array.ndim(); ++i) type.shape.push_back(static_cast<int64_t>(array.shape(i)));
  if (reinterpret_cast<uintptr_t>(array.data()) % dtype_size(type.dtype) != 0) {
    Tensor own(type);
    std::memcpy(own.raw(), array.data(), own.bytes());
    return own;
  }
  auto owner = std::make_shared<ForeignArray>(array);
  auto release = [owner]() mutable {
    nb::gil_scoped_acquire gil;
    owner.reset();
  };
  return Tensor(type, std::make_shared<Storage>(array.data(), type.bytes(), std::move(release)), 0);
}

Tensor copy_of(ForeignArray array, const std::string& bits_of) {
  Tensor shared = wrap(array, bits_of), own(shared.type());
  std::memcpy(own.raw(), shared.raw(), own.bytes());
  return own;
}

template <class Framework>
nb::ndarray<Framework> share(const Tensor& t, bool numpy) {
  t.expect_whole();
  size_t dims[kMaxRank];
  for (int i = 0; i < t.shape().rank(); ++i) dims[i] = static_cast<size_t>(t.shape()[i]);
  auto* held = new std::shared_ptr<Storage>(t.storage());
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::shared_ptr<Storage>*>(p); });
  return nb::ndarray<Framework>(t.raw(), t.shape().rank(), dims, owner, nullptr, to_dlpack(t.dtype(), numpy));
}

nb::object item(const Tensor& t) {
  t.expect_whole();
  if (t.numel() != 1)
    fail(ErrorKind::kShape, "item: the tensor has shape ", t.shape(), "; only one element can be read");
  return dispatch_all(t.dtype(), [&](auto tag) -> nb::object {
    using T = typename decltype(tag)::type;
    T v = *t.data<T>();
    if constexpr (std::is_same_v<T, bool>)
      return nb::bool_(v);
    else if constexpr (std::is_integral_v<T>)
      return nb::int_(static_cast<int64_t>(v));
    else if constexpr (std::is_same_v<T, double>)
      return nb::float_(v);
    else
      return nb::float_(static_cast<float>(v));
  });
}

}  // namespace

void bind_array(nb::module_& m) {
  nb::class_<Tensor>(m, "Array", "Contiguous n-dimensional array of the native core.")
      .def_prop_ro("shape", [](const Tensor& t) { return shape_to_python(t.shape()); })
      .def_prop_ro("ndim", [](const Tensor& t) { return t.shape().rank(); })
      .def_prop_ro("dtype", [](const Tensor& t) { return dtype_name(t.dtype()); })
      .def_prop_ro("size", &Tensor::numel)
      .def_prop_ro("nbytes", &Tensor::bytes)
      .def_prop_ro("address", [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.raw()); })
      .def(
          "numpy", [](const Tensor& t) { return share<nb::numpy>(t, true); }, "A NumPy array on the same memory.")
      .def(
          "dlpack", [](const Tensor& t) { return share<nb::array_api>(t, false); },
          "An object with __dlpack__ on the same memory.")
      .def("item", &item)
      .def(
          "tear", [](const Tensor& t, const std::string& why) { t.storage()->tear(why); },
          "From here on, reading it fails with this message.")
      .def("copy_from", [](Tensor& t, const Tensor& from) {
        if (!(t.type() == from.type()))
          fail(ErrorKind::kShape, "copy_from: cannot copy ", from.dtype(), " ", from.shape(), " to ", t.dtype(), " ",
               t.shape());
        from.expect_whole();
        std::memmove(t.raw(), from.raw(), t.bytes());
      });
  m.def("wrap", &wrap, nb::arg("array").noconvert(), nb::arg("bits_of") = "",
        "Shares a C-contiguous NumPy or DLPack array's memory.");
  m.def("copy_of", &copy_of, nb::arg("array").noconvert(), nb::arg("bits_of") = "",
        "Copies a C-contiguous NumPy or DLPack array.");
  m.def("empty", [](nb::handle shape, const std::string& dtype) {
    return Tensor(TensorType{shape_from_python(shape), dtype_from_name(dtype, "empty")});
  });
}

}  // namespace paddock
