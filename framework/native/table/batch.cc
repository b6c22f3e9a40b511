#include "table/batch.h"

#include <algorithm>

namespace paddock::table {
namespace {

constexpr size_t kAhead = 8;  // occurrences whose gradients are on their way
constexpr int64_t kFloat = sizeof(float);

std::shared_ptr<KeyOrder> order_of(std::span<const GradientPart> parts, int bucket_bits) {
  std::vector<Keys> runs;
  for (const GradientPart& part : parts) runs.emplace_back(part.keys, static_cast<size_t>(part.count));
  return std::make_shared<KeyOrder>(runs, bucket_bits);
}

// i / run for i below 2^31 by a product: ceil(2^64 / run) is exact enough (Lemire, Kaser, Kurz 2019, section 3.2).
class Divider {
 public:
  explicit Divider(int64_t run) : inverse_(run > 1 ? ~uint64_t{0} / static_cast<uint64_t>(run) + 1 : 0) {}
  int64_t operator()(int64_t i) const {
    if (!inverse_) return i;
    return static_cast<int64_t>(static_cast<unsigned __int128>(inverse_) * static_cast<uint64_t>(i) >> 64);
  }

 private:
  uint64_t inverse_;
};

}  // namespace

Batch::Batch(std::span<const GradientPart> parts, int64_t dim, int bucket_bits, std::shared_ptr<KeyOrder> order)
    : parts_(parts), dim_(dim), order_(order ? std::move(order) : order_of(parts, bucket_bits)) {
  for (const GradientPart& part : parts) {
    clicked_ = clicked_ || part.clicks;
    shown_ = shown_ || part.shown;
  }
}

// The part that a place of the batch is in, and its number there.
std::pair<size_t, int64_t> Batch::locate(int64_t place) const {
  size_t i = 0;
  for (; place >= parts_[i].count; ++i) place -= parts_[i].count;
  return {i, place};
}

void Batch::sum(int bucket, BucketSums& to) const {
  sum_gradients(bucket, to.grads);
  const size_t uniques = order_->uniques(bucket).size();
  to.clicks.assign(clicked_ ? uniques : 0, 0.0);
  if (clicked_) {
    std::vector<Divider> entries;
    for (const GradientPart& part : parts_) entries.emplace_back(part.clicks ? part.count / part.clicks : 1);
    for (const Occurrence& o : order_->occurrences(bucket)) {
      const auto [i, place] = locate(o.place);
      if (parts_[i].clicks) to.clicks[o.unique] += parts_[i].clicked[entries[i](place)];
    }
  }
  to.shows.assign(shown_ ? uniques : 0, 0.0);
  if (shown_)
    for (const Occurrence& o : order_->occurrences(bucket)) {
      const auto [i, place] = locate(o.place);
      to.shows[o.unique] += parts_[i].shown ? double{parts_[i].shown[place]} : 1;
    }
}

// -0 is what changes no number that is added to it, -0 among them.
void Batch::sum_gradients(int bucket, std::vector<float>& sums) const {
  const auto occurrences = order_->occurrences(bucket);
  sums.assign(order_->uniques(bucket).size() * static_cast<size_t>(dim_), -0.0f);
  const int64_t dim = dim_;
  float* to = sums.data();
  if (dim == 1 && parts_.size() == 1) {
    for (const Occurrence& o : occurrences) to[o.unique] += parts_[0].grads[o.place];
    return;
  }
  auto gradient = [&](const Occurrence& o) {
    const auto [i, place] = locate(o.place);
    return parts_[i].grads + place * dim;
  };
  for (size_t k = 0; k < occurrences.size(); ++k) {
    if (k + kAhead < occurrences.size()) prefetch_lines(gradient(occurrences[k + kAhead]), dim * kFloat);
    const float* grad = gradient(occurrences[k]);
    float* sum = to + occurrences[k].unique * dim;
    for (int64_t j = 0; j < dim; ++j) sum[j] += grad[j];
  }
}

}  // namespace paddock::table
