// One sequence and head of attention, forward and backward, in blocks of queries and keys.
#pragma once
#include <cstdint>

namespace paddock::cpu {

// What one head of one sequence reads. Row i of q is q + i * q_stride, and so on; a head has `width` columns.
template <class T>
struct AttentionHead {
  const T *q, *k, *v;
  int64_t q_stride, k_stride;  // k_stride is also v's
  int64_t queries, keys, width;
  T scale;
  bool causal;
  int64_t window;  // keys at this distance and farther are out of sight; 0 for none
  // Dropout of the weights with probability p; that of query i and key j is word first_word + i * word_stride + j of
  // the stream that `key` names.
  double p;
  const int64_t* key;
  uint64_t first_word, word_stride;
  // A mask, at most one of the two: which keys each query sees, or what is added to its scores, where -1e30 and less
  // hides a key. Row i starts at i * mask_stride.
  const uint8_t* shown = nullptr;
  const T* added = nullptr;
  int64_t mask_stride = 0;

  bool masked() const { return shown || added; }
};

// Elements of memory that a head of at most so many queries and keys needs while it is computed.
template <class T>
int64_t attention_workspace(int64_t queries, int64_t keys, int64_t width, bool dropout, bool backward);

// y: as q with rows y_stride apart; lse: one number a query, lse_stride apart.
template <class T>
void attend(const AttentionHead<T>& h, T* y, int64_t y_stride, T* lse, int64_t lse_stride, T* workspace);

// What the backward pass reads and writes besides. dq, dk, dv have the row strides of q, k and v.
template <class T>
struct AttentionGradient {
  const T *dy, *y, *lse, *dlse;  // dlse may be null
  int64_t y_stride, lse_stride;
  T *dq, *dk, *dv;
};

template <class T>
void attend_backward(const AttentionHead<T>& h, const AttentionGradient<T>& g, T* workspace);

}  // namespace paddock::cpu
