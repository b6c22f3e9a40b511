// A tensor's extents: at most kMaxRank of them, held inline so that shapes cost no allocation.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <vector>

#include "core/error.h"

namespace paddock {

inline constexpr int kMaxRank = 8;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(const std::vector<int64_t>& dims) : Shape(std::span<const int64_t>(dims)) {}
  explicit Shape(std::span<const int64_t> dims) {
    for (int64_t d : dims) push_back(d);
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  int64_t dim(int axis) const { return dims_[axis < 0 ? axis + rank_ : axis]; }  // negative counts from the end
  int64_t back() const { return dims_[rank_ - 1]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }

  void push_back(int64_t d) {
    if (rank_ == kMaxRank) fail(ErrorKind::kShape, "shape: a tensor has at most ", kMaxRank, " axes");
    dims_[rank_++] = d;
  }
  void erase(int axis) {
    for (int i = axis; i + 1 < rank_; ++i) dims_[i] = dims_[i + 1];
    --rank_;
  }

  int64_t numel() const { return count(0, rank_); }
  // Product of the extents of axes [from, to).
  int64_t count(int from, int to) const {
    int64_t n = 1;
    for (int i = from; i < to; ++i) n *= dims_[i];
    return n;
  }
  bool operator==(const Shape& o) const { return rank_ == o.rank_ && std::equal(begin(), end(), o.begin()); }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& s) {
  out << '[';
  for (int i = 0; i < s.rank(); ++i) out << (i ? ", " : "") << s[i];
  return out << ']';
}

}  // namespace paddock
