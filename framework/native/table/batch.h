// The gradients of one update by bucket: those of equal keys summed in the order of their places.
#pragma once
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "table/order.h"

namespace paddock::table {

// Keys and gradients of one look-up. Key i belongs to entry i * clicks / count of `clicked`.
struct GradientPart {
  const int64_t* keys;
  int64_t count;
  const float* grads;            // [count, dim]
  const float* clicked;          // [clicks]
  int64_t clicks;                // divides count; 0: nothing was clicked
  const float* shown = nullptr;  // [count], how often each key occurred; null: once
};

// Of the different keys of a bucket, in memory that a thread uses for one bucket after the other.
struct BucketSums {
  std::vector<float> grads;    // [U, dim]
  std::vector<double> clicks;  // [U], or nothing where nobody clicked
  std::vector<double> shows;   // [U], or nothing where each occurrence counts once
};

class PADDOCK_API Batch {
 public:
  // `order`: of the parts' keys, one part behind the other; null to make it.
  Batch(std::span<const GradientPart> parts, int64_t dim, int bucket_bits, std::shared_ptr<KeyOrder> order = nullptr);

  KeyOrder& order() const { return *order_; }
  int64_t count() const { return order_->count(); }
  void sum(int bucket, BucketSums& to) const;

 private:
  std::pair<size_t, int64_t> locate(int64_t place) const;
  void sum_gradients(int bucket, std::vector<float>& sums) const;

  std::span<const GradientPart> parts_;
  int64_t dim_;
  bool clicked_ = false, shown_ = false;
  std::shared_ptr<KeyOrder> order_;
};

}  // namespace paddock::table
