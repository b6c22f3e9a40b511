// The kernels of ops/attention.cc: which rows and columns each sequence and head has; cpu/sequence/attention.h computes
// them.
#include <cmath>

#include "cpu/sequence/attention.h"
#include "cpu/sequence/offsets.h"

namespace paddock::cpu {
namespace {

// What all four operators read, as pointers to the first sequence and head.
template <class T>
struct Operands {
  const T *q, *k, *v;
  int64_t q_stride, k_stride, width;  // of all heads
  int64_t queries, keys;              // of all sequences
};

template <class T>
Operands<T> separate(const KernelContext& c) {
  const int64_t width = c.in("q").shape()[1];
  return {c.in("q").data<T>(),  c.in("k").data<T>(), c.in("v").data<T>(), width, width, width,
          c.in("q").shape()[0], c.in("k").shape()[0]};
}

template <class T>
Operands<T> packed(const KernelContext& c) {
  const int64_t width = c.in("qkv").shape()[1] / 3, rows = c.in("qkv").shape()[0];
  const T* q = c.in("qkv").data<T>();
  return {q, q + width, q + 2 * width, 3 * width, 3 * width, width, rows, rows};
}

// The offsets of sequences of one length.
class EqualLengths {
 public:
  EqualLengths(int64_t sequences, int64_t length) : sequences_(sequences), length_(length) {}
  int64_t sequences() const { return sequences_; }
  int64_t begin(int64_t b) const { return b * length_; }
  int64_t length(int64_t) const { return length_; }
  int64_t longest() const { return length_; }

 private:
  int64_t sequences_, length_;
};

// The mask [B or 1, heads or 1, T or 1, S] of a dense call, for sequence b and head h.
template <class T>
void set_mask(const KernelContext& c, int64_t b, int64_t h, AttentionHead<T>& head) {
  if (!c.has("mask")) return;
  const Tensor& mask = c.in("mask");
  const Shape& m = mask.shape();
  const int64_t at = ((m[0] > 1 ? b : 0) * m[1] + (m[1] > 1 ? h : 0)) * m[2] * m[3];
  head.mask_stride = m[2] > 1 ? m[3] : 0;
  if (mask.dtype() == DType::kBool)
    head.shown = mask.data<uint8_t>() + at;
  else
    head.added = mask.data<T>() + at;
}

// Heads that a thread takes at a time: enough products to be worth a claim.
template <class Offsets>
int64_t heads_grain(const Offsets& queries, const Offsets& keys, int64_t width) {
  int64_t work = 0;
  for (int64_t b = 0; b < queries.sequences(); ++b) work += queries.length(b) * keys.length(b) * width;
  return std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(1, work / std::max<int64_t>(1, queries.sequences())));
}

// body(head, first row of q, first row of k, first column, number of the head, workspace) for each sequence and head,
// in parallel.
template <class T, class Offsets, class Body>
void for_heads(const KernelContext& c, const Operands<T>& o, const Offsets& queries, const Offsets& keys, bool backward,
               Body body) {
  constexpr bool kDense = std::is_same_v<Offsets, EqualLengths>;
  const auto heads = c.attr<int64_t>("heads");
  const int64_t width = o.width / heads;
  const auto scale = c.attr<double>("scale");
  AttentionHead<T> common{};
  common.q_stride = o.q_stride;
  common.k_stride = o.k_stride;
  common.width = width;
  common.scale = static_cast<T>(scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, width))));
  common.causal = c.attr<bool>("causal");
  if constexpr (!kDense) common.window = c.attr<int64_t>("window");
  common.p = c.attr<double>("p");
  common.key = c.maybe<int64_t>("key");
  // Dropout's words are numbered as in a tensor [heads, queries, keys] of all sequences, or [B, heads, T, S].
  common.word_stride = static_cast<uint64_t>(kDense ? keys.longest() : o.keys);
  const int64_t room = attention_workspace<T>(queries.longest(), keys.longest(), width, common.p > 0, backward);
  parallel_for(queries.sequences() * heads, heads_grain(queries, keys, width), [&](int64_t begin, int64_t end) {
    const Scratch workspace(sizeof(T) * static_cast<size_t>(room));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / heads, h = i % heads, query = queries.begin(b), key = keys.begin(b), column = h * width;
      AttentionHead<T> head = common;
      head.q = o.q + query * o.q_stride + column;
      head.k = o.k + key * o.k_stride + column;
      head.v = o.v + key * o.k_stride + column;
      head.queries = queries.length(b);
      head.keys = keys.length(b);
      if constexpr (kDense) {
        head.first_word = static_cast<uint64_t>(i * queries.length(b)) * common.word_stride;
        set_mask(c, b, h, head);
      } else {
        head.first_word =
            static_cast<uint64_t>(h * o.queries + query) * common.word_stride + static_cast<uint64_t>(key);
      }
      body(head, query, key, column, h, workspace.as<T>());
    }
  });
}

template <class T, class Offsets>
void forward(const KernelContext& c, const Operands<T>& o, const Offsets& queries, const Offsets& keys) {
  T *y = c.out("y").data<T>(), *lse = c.out("lse").data<T>();
  const auto heads = c.attr<int64_t>("heads");
  for_heads(c, o, queries, keys, /*backward=*/false,
            [=](const AttentionHead<T>& head, int64_t query, int64_t, int64_t column, int64_t h, T* workspace) {
              attend(head, y + query * o.width + column, o.width, lse + query * heads + h, heads, workspace);
            });
}

// dq, dk, dv: of the first sequence and head.
template <class T, class Offsets>
void backward(const KernelContext& c, const Operands<T>& o, const Offsets& queries, const Offsets& keys, T* dq, T* dk,
              T* dv) {
  const T *dy = c.in("dy").data<T>(), *y = c.in("y").data<T>(), *lse = c.in("lse").data<T>(),
          *dlse = c.maybe<T>("dlse");
  const auto heads = c.attr<int64_t>("heads");
  for_heads(c, o, queries, keys, /*backward=*/true,
            [=](const AttentionHead<T>& head, int64_t query, int64_t key, int64_t column, int64_t h, T* workspace) {
              AttentionGradient<T> g{};
              const int64_t row = query * o.width + column, number = query * heads + h;
              g.dy = dy + row;
              g.y = y + row;
              g.lse = lse + number;
              g.dlse = dlse ? dlse + number : nullptr;
              g.y_stride = o.width;
              g.lse_stride = heads;
              g.dq = dq + query * o.q_stride + column;
              g.dk = dk + key * o.k_stride + column;
              g.dv = dv + key * o.k_stride + column;
              attend_backward(head, g, workspace);
            });
}

template <class T>
void ragged_forward(const KernelContext& c, const Operands<T>& o, const char* k_offsets) {
  forward(c, o, CheckedOffsets(c, "offsets", o.queries), CheckedOffsets(c, k_offsets, o.keys));
}

template <class T>
void ragged_backward(const KernelContext& c, const Operands<T>& o, const char* k_offsets, T* dq, T* dk, T* dv) {
  backward(c, o, CheckedOffsets(c, "offsets", o.queries), CheckedOffsets(c, k_offsets, o.keys), dq, dk, dv);
}

const char* name_of_k_offsets(const KernelContext& c) { return c.has("k_offsets") ? "k_offsets" : "offsets"; }

PADDOCK_CPU_KERNEL(ragged_attention) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    ragged_forward<T>(c, separate<T>(c), name_of_k_offsets(c));
  });
}

PADDOCK_CPU_KERNEL(ragged_attention_grad) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    ragged_backward<T>(c, separate<T>(c), name_of_k_offsets(c), c.out("dq").data<T>(), c.out("dk").data<T>(),
                       c.out("dv").data<T>());
  });
}

PADDOCK_CPU_KERNEL(ragged_self_attention) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    ragged_forward<T>(c, packed<T>(c), "offsets");
  });
}

PADDOCK_CPU_KERNEL(ragged_self_attention_grad) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Operands<T> o = packed<T>(c);
    T* dqkv = c.out("dqkv").data<T>();
    ragged_backward<T>(c, o, "offsets", dqkv, dqkv + o.width, dqkv + 2 * o.width);
  });
}

// q [B, T, D], k and v [B, S, D] as rows of sequences that follow one another.
template <class T>
Operands<T> dense(const KernelContext& c) {
  const Shape &q = c.in("q").shape(), &k = c.in("k").shape();
  return {c.in("q").data<T>(), c.in("k").data<T>(), c.in("v").data<T>(), q[2], k[2], q[2], q[0] * q[1], k[0] * k[1]};
}

EqualLengths lengths_of(const Tensor& x) { return {x.shape()[0], x.shape()[1]}; }

PADDOCK_CPU_KERNEL(scaled_dot_product_attention) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    forward(c, dense<T>(c), lengths_of(c.in("q")), lengths_of(c.in("k")));
  });
}

PADDOCK_CPU_KERNEL(scaled_dot_product_attention_grad) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward(c, dense<T>(c), lengths_of(c.in("q")), lengths_of(c.in("k")), c.out("dq").data<T>(), c.out("dk").data<T>(),
             c.out("dv").data<T>());
  });
}

}  // namespace
}  // namespace paddock::cpu
