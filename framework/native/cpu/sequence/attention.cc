// Attention in blocks: scores of some queries against some keys stand in a buffer that stays in the caches, a running
// maximum and sum join the blocks of keys (Dao et al., "FlashAttention", 2022). The products are the register tile's.
#include "cpu/sequence/attention.h"

#include "cpu/elementwise/rows.h"
#include "cpu/gemm/gemm_pack.h"
#include "cpu/random/philox.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kQueries = 96;  // of a block: a multiple of a tile's rows
constexpr int64_t kKeys = 256;    // of a block: a multiple of a panel's columns

// C [M, N] = alpha A B + beta C. B [K, N] is packed; row i of A and C starts at i * lda and i * ldc. With kColumns A is
// the transpose of what is stored: A(i, k) = A[k * lda + i].
template <bool kColumns, class T>
void multiply(const T* A, int64_t lda, int64_t M, const T* packed, int64_t K, int64_t N, T alpha, T beta, T* C,
              int64_t ldc) {
  const T* a[kMaxTileRows];
  T* c[kMaxTileRows];
  Tile<T> tile{};
  tile.a_rows = a;
  tile.a_stride = lda;
  tile.taps = 1;
  tile.length = K;
  tile.c = c;
  tile.alpha = alpha;
  tile.beta = beta;
  for (int64_t n = 0; n < N; n += kPanelWidth<T>) {
    const int64_t vecs = panel_vecs<T>(N, n), most = tile_rows(vecs);
    tile.b = packed + panel_offset(K, n);
    tile.b_stride = vecs * Vec<T>::kSize;
    tile.column = n;
    tile.columns = std::min(kPanelWidth<T>, N - n);
    for (int64_t m = 0; m < M; m += most) {
      const int64_t rows = std::min(most, M - m);
      for (int64_t i = 0; i < rows; ++i) {
        a[i] = A + (m + i) * lda;
        c[i] = C + (m + i) * ldc;
      }
      tile.a_columns = A + m;
      (kColumns ? tile_kernel_by_columns<T>(rows, vecs) : tile_kernel_by_rows<T>(rows, vecs))(tile);
    }
  }
}

// Packs op(B) [K, N] into panels; op(B) is B transposed or B, whose rows are ldb apart.
template <class T>
void pack(bool transposed, const T* B, int64_t ldb, int64_t K, int64_t N, T* packed) {
  for (int64_t n = 0; n < N; n += kPanelWidth<T>)
    pack_b(transposed, B, ldb, 0, K, n, std::min(kPanelWidth<T>, N - n), packed + panel_offset(K, n),
           panel_vecs<T>(N, n) * Vec<T>::kSize);
}

int64_t whole_vectors(int64_t n, int64_t lanes) { return (n + lanes - 1) / lanes * lanes; }

// Elements of a block of rows, packed.
template <class T>
int64_t packed_block(int64_t width) {
  return std::max(width * kKeys, packed_size<T>(kKeys, width));
}

// Memory of a head, handed out from front to back.
template <class T>
class Workspace {
 public:
  explicit Workspace(T* memory) : next_(memory) {}
  T* take(int64_t count) {
    T* taken = next_;
    next_ += whole_vectors(count, kVecBytes / static_cast<int64_t>(sizeof(T)));
    return taken;
  }

 private:
  T* next_;
};

// The rows of keys or values of a sequence, packed block by block: transposed [width, keys] or as they are.
template <class T>
class PackedRows {
 public:
  PackedRows(Workspace<T>& memory, bool transposed, const T* rows, int64_t stride, int64_t count, int64_t width)
      : block_(packed_block<T>(width)), data_(memory.take(block_ * ceil_div(count, kKeys))) {
    for (int64_t at = 0; at < count; at += kKeys) {
      const int64_t n = std::min(kKeys, count - at);
      T* to = data_ + at / kKeys * block_;
      pack(transposed, rows + at * stride, stride, transposed ? width : n, transposed ? n : width, to);
    }
  }
  const T* block(int64_t first_row) const { return data_ + first_row / kKeys * block_; }

 private:
  int64_t block_;
  T* data_;
};

// A block of queries against a block of keys: [rows, keys] values of scores, weights or their gradients.
struct Block {
  int64_t query, rows, key, keys;
};

// The first key that a query may see, and the one behind the last, over the whole sequence.
template <class T>
int64_t sight_begin(const AttentionHead<T>& h, int64_t query) {
  return h.window ? std::clamp<int64_t>(query + h.keys - h.queries - h.window + 1, 0, h.keys) : 0;
}
template <class T>
int64_t sight_end(const AttentionHead<T>& h, int64_t query) {
  const int64_t ahead = h.causal ? 1 : h.window;
  return ahead ? std::clamp<int64_t>(query + h.keys - h.queries + ahead, 0, h.keys) : h.keys;
}

// Of the block's keys its row r sees those from `begin` up to `end`; none where begin >= end.
struct Sight {
  int64_t begin, end;
};
template <class T>
Sight visible(const AttentionHead<T>& h, const Block& b, int64_t r) {
  return {std::clamp<int64_t>(sight_begin(h, b.query + r) - b.key, 0, b.keys),
          std::clamp<int64_t>(sight_end(h, b.query + r) - b.key, 0, b.keys)};
}

// The blocks of keys that any of a block's queries see: from the first one's begin, up to an end.
struct Reach {
  int64_t begin, end;
};
template <class T>
Reach reach(const AttentionHead<T>& h, int64_t query, int64_t rows) {
  return {sight_begin(h, query) / kKeys * kKeys, sight_end(h, query + rows - 1)};
}

// The row stride of buffers of [queries, keys] values of a block, and their size.
template <class T>
int64_t buffer_stride(int64_t keys) {
  return whole_vectors(std::min(keys, kKeys), Vec<T>::kSize);
}
template <class T>
int64_t buffer_size(int64_t queries, int64_t keys) {
  return std::min(queries, kQueries) * buffer_stride<T>(keys);
}

// Random words of stretches of a stream, computed kPhiloxLanes blocks at a time whatever the stretches' lengths are.
class WordQueue {
 public:
  static constexpr int64_t kRoom = 4096;  // words

  WordQueue(const int64_t* key, uint32_t* words) : key_(key), words_(words) {}
  // Asks for `count` words from `first` on; returns where they will stand once `finish` was called.
  const uint32_t* ask(uint64_t first, int64_t count) {
    const auto skipped = static_cast<int64_t>(first % 4);  // words of the first block that another stretch has
    const uint32_t* place = words_ + 4 * asked_ + skipped;
    for (uint64_t block = first / 4, end = (first + static_cast<uint64_t>(count) + 3) / 4; block < end; ++block) {
      blocks_[asked_ % kPhiloxLanes] = block;
      if (++asked_ % kPhiloxLanes == 0) draw(asked_ - kPhiloxLanes);
    }
    return place;
  }
  bool has_room(int64_t count) const { return 4 * asked_ + count + 8 + 4 * kPhiloxLanes <= kRoom; }
  void finish() {
    if (asked_ % kPhiloxLanes) draw(asked_ / kPhiloxLanes * kPhiloxLanes);
    asked_ = 0;
  }

 private:
  void draw(int64_t at) {
    const PhiloxWords w = philox_words(key_, [this](int64_t i) { return blocks_[i]; });
    std::memcpy(words_ + 4 * at, w.word, sizeof w.word);
  }

  const int64_t* key_;
  uint32_t* words_;
  int64_t asked_ = 0;  // blocks
  uint64_t blocks_[kPhiloxLanes] = {};
};

// Draws the dropout of a block: factor[r, j] is 0 or 1 / (1 - p).
template <class T>
void draw(const AttentionHead<T>& h, const Block& b, T* factor, int64_t stride) {
  const auto least = static_cast<uint32_t>(std::ceil(h.p * 0x1p24));  // as dropout does
  const T kept = static_cast<T>(1 / (1 - h.p));
  uint32_t words[WordQueue::kRoom];
  const uint32_t* places[kQueries];
  WordQueue queue(h.key, words);
  for (int64_t begin = 0, end = 0; begin < b.rows; begin = end) {
    for (; end < b.rows && queue.has_room(b.keys); ++end)
      places[end] = queue.ask(
          h.first_word + static_cast<uint64_t>(b.query + end) * h.word_stride + static_cast<uint64_t>(b.key), b.keys);
    queue.finish();
    for (int64_t r = begin; r < end; ++r) {
      const uint32_t* word = places[r];
      T* to = factor + r * stride;
#pragma GCC ivdep
      for (int64_t j = 0; j < b.keys; ++j) to[j] = (word[j] >> 8) >= least ? kept : T{0};
    }
  }
}

template <class T>
void scale_row(T* x, int64_t n, T factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// What a block of queries knows of the keys so far: the largest score and the sum of exponentials beyond it, by row.
template <class T>
struct Running {
  T largest[kQueries], sum[kQueries];
};

// Scores of keys that the mask hides become -infinity; a NaN stays.
template <class T>
void apply_mask(const AttentionHead<T>& h, const Block& b, T* s, int64_t stride) {
  constexpr T hidden = -std::numeric_limits<T>::infinity();
  for (int64_t r = 0; r < b.rows && h.masked(); ++r) {
    const int64_t at = (b.query + r) * h.mask_stride + b.key;
    T* row = s + r * stride;
    if (const uint8_t* shown = h.shown ? h.shown + at : nullptr) {
#pragma GCC ivdep
      for (int64_t j = 0; j < b.keys; ++j) row[j] = shown[j] ? row[j] : hidden;
    } else {
      const T* added = h.added + at;
#pragma GCC ivdep
      for (int64_t j = 0; j < b.keys; ++j) {
        const T sum = row[j] + added[j];
        row[j] = sum <= T(-1e30) ? hidden : sum;
      }
    }
  }
}

// Whether a query sees nothing of what there is: its largest score, or the logarithm of its sum, is -infinity.
template <class T>
bool is_blind(const AttentionHead<T>& h, T at) {
  return h.masked() && at == -std::numeric_limits<T>::infinity();
}

// Scores to weights, still to be divided by their sum; what y holds of earlier keys is brought to the new maximum.
template <class T>
void weigh(const AttentionHead<T>& h, const Block& b, bool first, T* s, int64_t stride, Running<T>& known, T* y,
           int64_t y_stride) {
  for (int64_t r = 0; r < b.rows; ++r) {
    Sight seen = visible(h, b, r);
    T *all = s + r * stride, *row = all + seen.begin;
    const int64_t n = seen.end - seen.begin;
    const T before = known.largest[r], largest = n > 0 ? std::max(before, row_max(row, n)) : before;
    if (n <= 0 || is_blind(h, largest)) {
      seen = {0, 0};
    } else {
      row_exp(row, n, largest, row);
      const T kept = first ? T{0} : math::exp(before - largest);
      if (!first && kept != T{1}) scale_row(y + r * y_stride, h.width, kept);
      known.sum[r] = known.sum[r] * kept + row_sum<T>(n, [row](auto at) { return at(row); });
      known.largest[r] = largest;
    }
    std::fill(all, all + seen.begin, T{0});
    std::fill(all + seen.end, all + b.keys, T{0});
  }
}

template <class T>
void multiply_elements(T* x, const T* factor, const Block& b, int64_t stride) {
  for (int64_t r = 0; r < b.rows; ++r)
    for (int64_t j = 0; j < b.keys; ++j) x[r * stride + j] *= factor[r * stride + j];
}

// y = y / sum, and lse; a query that sees no key gets 0.
template <class T>
void finish(const AttentionHead<T>& h, int64_t rows, const Running<T>& known, T* y, int64_t y_stride, T* lse,
            int64_t lse_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const bool blind = !(known.sum[r] != T{0});
    if (blind)
      std::fill(y + r * y_stride, y + r * y_stride + h.width, T{0});
    else
      scale_row(y + r * y_stride, h.width, 1 / known.sum[r]);
    lse[r * lse_stride] = blind ? -std::numeric_limits<T>::infinity() : known.largest[r] + math::log(known.sum[r]);
  }
}

// Weights from scores and the logarithms of their sums; 0 for keys out of sight.
template <class T>
void weights_again(const AttentionHead<T>& h, const Block& b, T* s, int64_t stride, const T* lse, int64_t lse_stride) {
  for (int64_t r = 0; r < b.rows; ++r) {
    T* row = s + r * stride;
    const T shift = lse[(b.query + r) * lse_stride];
    Sight seen = visible(h, b, r);
    if (seen.begin >= seen.end || is_blind(h, shift)) seen = {0, 0};
    if (seen.end > 0) row_exp(row + seen.begin, seen.end - seen.begin, shift, row + seen.begin);
    std::fill(row, row + seen.begin, T{0});
    std::fill(row + seen.end, row + b.keys, T{0});
  }
}

// ds = w (factor dw - delta) in place of dw, by rows; factor may be null.
template <class T>
void score_gradients(const Block& b, const T* w, const T* factor, const T* delta, T* dw, int64_t stride) {
  for (int64_t r = 0; r < b.rows; ++r) {
    const T *weight = w + r * stride, *f = factor + r * stride;
    T* d = dw + r * stride;
    const T sum = delta[r];
    if (factor) {
#pragma GCC ivdep
      for (int64_t j = 0; j < b.keys; ++j) d[j] = weight[j] * (f[j] * d[j] - sum);
    } else {
#pragma GCC ivdep
      for (int64_t j = 0; j < b.keys; ++j) d[j] = weight[j] * (d[j] - sum);
    }
  }
}

// delta[r] = dy . y - dlse: what all score gradients of a query subtract.
template <class T>
void row_products(const AttentionHead<T>& h, const AttentionGradient<T>& g, int64_t query, int64_t rows, T* delta) {
  for (int64_t r = 0; r < rows; ++r) {
    const T *dy = g.dy + (query + r) * g.y_stride, *y = g.y + (query + r) * g.y_stride;
    delta[r] = row_sum<T>(h.width, [=](auto at) { return at(dy) * at(y); });
    if (g.dlse) delta[r] -= g.dlse[(query + r) * g.lse_stride];
  }
}

template <class T>
void clear_rows(T* x, int64_t stride, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) std::fill(x + r * stride, x + r * stride + width, T{0});
}

}  // namespace

template <class T>
int64_t attention_workspace(int64_t queries, int64_t keys, int64_t width, bool dropout, bool backward) {
  const int64_t packed = (backward ? 3 : 2) * packed_block<T>(width) * ceil_div(keys, kKeys);
  const int64_t buffers = ((backward ? 2 : 1) + dropout) * buffer_size<T>(queries, keys);
  const int64_t panels = backward ? 2 * packed_size<T>(std::min(queries, kQueries), width) : 0;
  return packed + buffers + panels + 8 * Vec<T>::kSize;  // each piece is rounded up to whole vectors
}

template <class T>
void attend(const AttentionHead<T>& h, T* y, int64_t y_stride, T* lse, int64_t lse_stride, T* workspace) {
  Workspace<T> memory(workspace);
  const PackedRows<T> keys(memory, true, h.k, h.k_stride, h.keys, h.width),
      values(memory, false, h.v, h.k_stride, h.keys, h.width);
  const int64_t stride = buffer_stride<T>(h.keys), size = buffer_size<T>(h.queries, h.keys);
  T *weights = memory.take(size), *factor = h.p > 0 ? memory.take(size) : nullptr;
  for (int64_t query = 0; query < h.queries; query += kQueries) {
    const int64_t rows = std::min(kQueries, h.queries - query);
    const Reach seen = reach(h, query, rows);
    Running<T> known;
    std::fill(known.largest, known.largest + rows, -std::numeric_limits<T>::infinity());
    std::fill(known.sum, known.sum + rows, T{0});
    T* to = y + query * y_stride;
    for (int64_t key = seen.begin; key < seen.end; key += kKeys) {
      const Block b{query, rows, key, std::min(kKeys, h.keys - key)};
      multiply<false>(h.q + query * h.q_stride, h.q_stride, rows, keys.block(key), h.width, b.keys, h.scale, T{0},
                      weights, stride);
      apply_mask(h, b, weights, stride);
      weigh(h, b, key == seen.begin, weights, stride, known, to, y_stride);
      if (factor) {
        draw(h, b, factor, stride);
        multiply_elements(weights, factor, b, stride);
      }
      multiply<false>(weights, stride, rows, values.block(key), b.keys, h.width, T{1}, key > seen.begin ? T{1} : T{0},
                      to, y_stride);
    }
    finish(h, rows, known, to, y_stride, lse + query * lse_stride, lse_stride);
  }
}

template <class T>
void attend_backward(const AttentionHead<T>& h, const AttentionGradient<T>& g, T* workspace) {
  Workspace<T> memory(workspace);
  const PackedRows<T> key_columns(memory, true, h.k, h.k_stride, h.keys, h.width),
      value_columns(memory, true, h.v, h.k_stride, h.keys, h.width),
      key_rows(memory, false, h.k, h.k_stride, h.keys, h.width);
  const int64_t stride = buffer_stride<T>(h.keys), size = buffer_size<T>(h.queries, h.keys),
                packed = packed_size<T>(std::min(h.queries, kQueries), h.width);
  T *w = memory.take(size), *dw = memory.take(size), *factor = h.p > 0 ? memory.take(size) : nullptr;
  T *queries = memory.take(packed), *dys = memory.take(packed);
  clear_rows(g.dk, h.k_stride, h.keys, h.width);
  clear_rows(g.dv, h.k_stride, h.keys, h.width);
  for (int64_t query = 0; query < h.queries; query += kQueries) {
    const int64_t rows = std::min(kQueries, h.queries - query);
    const Reach seen = reach(h, query, rows);
    const T *q = h.q + query * h.q_stride, *dy = g.dy + query * g.y_stride;
    T delta[kQueries], *dq = g.dq + query * h.q_stride;
    row_products(h, g, query, rows, delta);
    pack(false, q, h.q_stride, rows, h.width, queries);
    pack(false, dy, g.y_stride, rows, h.width, dys);
    if (seen.begin >= seen.end) clear_rows(dq, h.q_stride, rows, h.width);
    for (int64_t key = seen.begin; key < seen.end; key += kKeys) {
      const Block b{query, rows, key, std::min(kKeys, h.keys - key)};
      multiply<false>(q, h.q_stride, rows, key_columns.block(key), h.width, b.keys, h.scale, T{0}, w, stride);
      apply_mask(h, b, w, stride);
      weights_again(h, b, w, stride, g.lse, g.lse_stride);
      multiply<false>(dy, g.y_stride, rows, value_columns.block(key), h.width, b.keys, T{1}, T{0}, dw, stride);
      if (factor) draw(h, b, factor, stride);
      score_gradients(b, w, factor, delta, dw, stride);
      if (factor) multiply_elements(w, factor, b, stride);
      multiply<true>(w, stride, b.keys, dys, rows, h.width, T{1}, T{1}, g.dv + key * h.k_stride, h.k_stride);
      multiply<true>(dw, stride, b.keys, queries, rows, h.width, h.scale, T{1}, g.dk + key * h.k_stride, h.k_stride);
      multiply<false>(dw, stride, rows, key_rows.block(key), b.keys, h.width, h.scale, key > seen.begin ? T{1} : T{0},
                      dq, h.q_stride);
    }
  }
}

#define PADDOCK_INSTANTIATE(T)                                                    \
  template int64_t attention_workspace<T>(int64_t, int64_t, int64_t, bool, bool); \
  template void attend<T>(const AttentionHead<T>&, T*, int64_t, T*, int64_t, T*); \
  template void attend_backward<T>(const AttentionHead<T>&, const AttentionGradient<T>&, T*);
PADDOCK_INSTANTIATE(float)
PADDOCK_INSTANTIATE(double)
#undef PADDOCK_INSTANTIATE

}  // namespace paddock::cpu
