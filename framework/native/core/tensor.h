// A tensor: type, shape, and a contiguous row-major window into a storage. Copying one copies the reference.
#pragma once
#include <memory>

#include "core/dtype.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/storage.h"

namespace paddock {

// What is known of a value before it is computed.
struct TensorType {
  Shape shape;
  DType dtype = DType::kF32;
  int64_t numel() const { return shape.numel(); }
  int64_t bytes() const { return shape.numel() * dtype_size(dtype); }
  bool operator==(const TensorType&) const = default;
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const TensorType& type) : Tensor(type, std::make_shared<Storage>(type.bytes()), 0) {}
  Tensor(const TensorType& type, std::shared_ptr<Storage> storage, int64_t offset)
      : type_(type), storage_(std::move(storage)), data_(static_cast<char*>(storage_->data()) + offset) {}

  explicit operator bool() const { return storage_ != nullptr; }  // false for an absent optional input
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int64_t numel() const { return type_.numel(); }
  int64_t bytes() const { return type_.bytes(); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  void* raw() const { return data_; }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(data_);
  }

  // The same bytes under another shape with as many elements.
  Tensor reshaped(const TensorType& type) const {
    Tensor t = *this;
    t.type_ = type;
    return t;
  }

  // Refuses memory that a failed run has left half written.
  void expect_whole() const {
    if (storage_ && storage_->torn()) fail(ErrorKind::kState, *storage_->torn());
  }

 private:
  TensorType type_;
  std::shared_ptr<Storage> storage_;
  char* data_ = nullptr;
};

}  // namespace paddock
