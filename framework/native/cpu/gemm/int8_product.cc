// Rounding rows, and the loops around the register tile of int8_tile.h. Compiled without contraction to fused
// multiply-adds (see CMakeLists.txt), so that every instruction set rounds alike.
#include "cpu/gemm/int8_product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/gemm/int8_tile.h"
#include "cpu/kernel.h"
#include "cpu/vec/stream.h"
#include "op/record.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kLanes = Vec<float>::kSize;
constexpr int64_t kWidth = kInt8Width;
constexpr int kTileRows = kInt8TileRows;
constexpr int64_t kBandRows = 192;            // of y in a task
constexpr int64_t kTasksWanted = 32;          // enough to even out the threads of a large machine
constexpr int64_t kTaskOperations = 1 << 22;  // multiply-adds that make a task worth its start
constexpr int32_t kByteMost = 127;            // larger numbers take 16 bits

// -- rows of x
// Rows as the tile reads them, padded to whole groups, and what 1 stands for in each.
struct RoundedRows {
  const void* values;
  int64_t stride;  // bytes
  const float* scales;
};

// Largest |x| as the bits of a float, which order as the values do: above those of infinity where there is a NaN.
int32_t largest_bits(const float* x, int64_t n) {
  int32_t most = 0;
  for (int64_t k = 0; k < n; ++k) most = std::max(most, std::bit_cast<int32_t>(x[k]) & 0x7fffffff);
  return most;
}

// v to the nearest integer, halves to even; |v| < 2^22.
inline int32_t to_integer(float v) {
  constexpr float kMagic = 0x1.8p23f;  // adding it leaves no bits for a fraction: the integer stands in the low bits
  return std::bit_cast<int32_t>(v + kMagic) - std::bit_cast<int32_t>(kMagic);
}

// Rounds one row to [-most, most]; returns what 1 stands for, NaN for a row that has no result.
template <class D>
float round_row(const float* x, int64_t n, float given_scale, float most, typename D::Row* q) {
  using Row = typename D::Row;
  constexpr int32_t kInfinity = 0x7f800000;
  const int32_t bits = largest_bits(x, n);
  std::fill(q + n, q + ceil_div(n, D::kGroup) * D::kGroup, Row(D::kShift));
  if (given_scale != 0) {
    const float factor = 1.0f / given_scale;
    for (int64_t k = 0; k < n; ++k) {
      float v = x[k] * factor;
      v = v < -most ? -most : v;
      v = v > most ? most : v;
      q[k] = static_cast<Row>(to_integer(v) + D::kShift);
    }
    return bits > kInfinity ? std::numeric_limits<float>::quiet_NaN() : given_scale;
  }
  const float largest = std::bit_cast<float>(bits), factor = most / largest;
  if (bits >= kInfinity || !(factor <= std::numeric_limits<float>::max())) {  // not finite, or as good as 0
    std::fill(q, q + n, Row(D::kShift));
    return bits >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  for (int64_t k = 0; k < n; ++k) q[k] = static_cast<Row>(to_integer(x[k] * factor) + D::kShift);
  return largest / most;
}

// -- from sums to y
class Finish {
 public:
  explicit Finish(const Int8Product& p)
      : p_(p), streamed_(worth_streaming(p.y, p.N * static_cast<int64_t>(sizeof(float)), p.M)) {}

  bool streamed() const { return streamed_; }

  // Sums [rows, width] of the rows from m on and the columns from n on; `scales` of those rows.
  void operator()(const int32_t* sums, const float* scales, int64_t m, int64_t rows, int64_t n, int64_t width) const {
    alignas(kVecBytes) float values[kTileRows * kWidth];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; j += kLanes)
        value(sums + i * width + j, scales[i], (m + i) * p_.N + n + j, n + j).store(values + i * width + j);
    const ValueLoop& loop = p_.epilogue.loop;
    const void* in[] = {values, nullptr};
    if (loop) loop.run(in, values, rows * width, &loop.attr);
    for (int64_t i = 0; i < rows; ++i) put(values + i * width, p_.y + (m + i) * p_.N + n, std::min(width, p_.N - n));
  }

 private:
  // Up to a vector of y that starts at column n of its row.
  Vec<float> value(const int32_t* sums, float row_scale, int64_t at, int64_t n) const {
    const int64_t lanes = std::min(kLanes, p_.N - n);
    const Vec<float> scale = Vec<float>::load_n(p_.weight_scale + n, lanes);
    const Vec<float> sum{__builtin_convertvector(load_int32s(sums), Vec<float>::Native)};
    return finish(sum * Vec<float>::broadcast(row_scale) * scale, p_.epilogue, n, at, lanes);
  }

  void put(const float* from, float* to, int64_t n) const {
    int64_t j = 0;
    for (; streamed_ && j + kLanes <= n; j += kLanes) stream(Vec<float>::load(from + j), to + j);
    std::copy(from + j, from + n, to + j);
  }

  const Int8Product& p_;
  const bool streamed_;
};

// -- the loops
template <class D>
class Multiply {
 public:
  Multiply(const Int8Product& p, const int8_t* packed)
      : p_(p), weights_{p.N, p.K, D::kShift}, packed_(packed), finish_(p), groups_(weights_.padded_depth / D::kGroup) {}

  void run() const {
    const Scratch values(static_cast<size_t>(std::max<int64_t>(1, p_.M * groups_ * 4)));
    const Scratch scales(static_cast<size_t>(p_.M) * sizeof(float));
    const RoundedRows rows{values.as<void>(), groups_ * 4, scales.as<float>()};
    parallel_for(p_.M, row_grain(p_.K), [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m)
        scales.as<float>()[m] = round_row<D>(p_.x + m * p_.K, p_.K, p_.x_scale, static_cast<float>(p_.x_most),
                                             reinterpret_cast<typename D::Row*>(values.as<char>() + m * rows.stride));
    });
    const int64_t panels = ceil_div(p_.N, kWidth), work = p_.M * p_.N * p_.K;
    const int64_t bands = ceil_div(p_.M, kBandRows);
    const int64_t wanted = ceil_div(std::clamp<int64_t>(work / kTaskOperations, 1, kTasksWanted), bands);
    const int64_t groups = std::min(panels, wanted);
    parallel_for(bands * groups, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t band = i / groups, group = i % groups;
        const int64_t tiles = ceil_div(p_.M, kTileRows);
        const int64_t begin = band * tiles / bands * kTileRows;
        const int64_t end = std::min(p_.M, (band + 1) * tiles / bands * kTileRows);
        for (int64_t panel = group * panels / groups; panel < (group + 1) * panels / groups; ++panel)
          multiply(rows, begin, end, panel * kWidth);
      }
      if (finish_.streamed()) finish_streaming();
    });
  }

 private:
  // Rows [begin, end), dealt out evenly so that no tile is left with a row or two, against the panel of column n.
  void multiply(const RoundedRows& rows, int64_t begin, int64_t end, int64_t n) const {
    const int64_t vecs = panel_vecs<float>(p_.N, n), count = ceil_div(end - begin, kTileRows);
    alignas(kVecBytes) int32_t sums[kTileRows * kWidth];
    const int8_t* b = packed_ + weights_.panel(n);
    const int64_t panel_bytes = vecs * kLanes * weights_.padded_depth;
    const int8_t* next = n + kWidth < p_.N ? b + panel_bytes : b;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t m = begin + i * (end - begin) / count, last = begin + (i + 1) * (end - begin) / count;
      const char* a[kTileRows];
      for (int64_t r = 0; r < last - m; ++r) a[r] = static_cast<const char*>(rows.values) + (m + r) * rows.stride;
      int8_tile<D>(last - m, vecs)({a, 1, groups_, b, reinterpret_cast<const int32_t*>(packed_) + n,
                                    next + i * panel_bytes / count / 64 * 64, sums});
      finish_(sums, rows.scales + m, m, last - m, n, vecs * kLanes);
    }
  }

  const Int8Product& p_;
  const Int8Panels<D> weights_;
  const int8_t* packed_;
  const Finish finish_;
  const int64_t groups_;
};

template <class D>
void multiply_with(const Int8Product& p, const Prepared& prepared) {
  note_implementation(D::kName);
  const Int8Panels<D> weights{p.N, p.K, D::kShift};
  const auto packed = prepared.block(cat("int8 panels for ", D::kName), weights.bytes(), [&](void* to) {
    if (p.x_most > kByteMost) expect_exact_sums("quantized_matmul", p.weight, p.N, p.K, p.x_most);
    weights.pack(p.weight, to);
  });
  Multiply<D>(p, static_cast<const int8_t*>(packed->data())).run();
}

}  // namespace

void expect_exact_sums(const char* who, const int8_t* weight, int64_t rows, int64_t depth, int64_t most) {
  for (int64_t k = 0; k < rows; ++k) {
    int64_t sum = 0;
    for (int64_t i = 0; i < depth; ++i) sum += std::abs(int32_t{weight[k * depth + i]});
    if (sum * most > INT32_MAX)
      fail(ErrorKind::kNumerics, who, ": row ", k, " of weight has magnitudes that add up to ", sum,
           ", and 32 bits hold its sums with numbers up to ", INT32_MAX / sum, ", not to x_most = ", most);
  }
}

void multiply_int8(const Int8Product& p, const Prepared& prepared) {
  if (p.M == 0 || p.N == 0) return;
#if defined(PADDOCK_BYTE_DOT)
  static const bool byte_dot = has_byte_dot();
  if (byte_dot && !p.widening)
    return p.x_most > kByteMost ? multiply_with<WordDot>(p, prepared) : multiply_with<MatrixDot>(p, prepared);
#endif
  multiply_with<WideningDot>(p, prepared);
}

}  // namespace paddock::cpu
