// Recurrent layers over ragged data: LSTM and GRU, each sequence by itself, in one direction or in both at once.
// The product with the layer's input is not part of them: it is one matmul for all rows, whose result is `x_gates`.
#include "op/choice.h"
#include "ops/ragged.h"

namespace paddock {
namespace {

constexpr const char* kDirectionDoc =
    "'forward', 'reverse' (from each sequence's last row to its first) or 'both' (forward in part 0, reverse in part "
    "1 of every axis or row with S parts).";

struct Extents {
  int64_t parts, hidden, sequences, rows;  // S, H, B, T

  Shape by_row(int64_t gates) const { return {rows, parts * gates * hidden}; }
  Shape by_sequence() const { return {parts, sequences, hidden}; }
};

using Names = std::initializer_list<const char*>;

// Every row meets weight [S, gates H, H]; the gates' own arithmetic is left out.
int64_t steps_flops(const Shape& rows, const Shape& weight) { return 2 * rows[0] * weight.numel(); }

// Inputs that may be absent, all of one shape.
void expect_each(const InferContext& c, Names names, const Shape& expected) {
  for (const char* name : names) {
    if (!c.has(name)) continue;
    c.expect_dtype(name, c.in("weight_h").dtype);
    c.expect_shape(name, expected);
  }
}

// Checks weight_h [S, gates * H, H], the offsets and states [S, B, H]; `rows` is T.
Extents expect_cell(const InferContext& c, int64_t gates, int64_t rows, Names states) {
  c.expect_floating("weight_h");
  c.expect_rank("weight_h", 3);
  const Shape& w = c.shape("weight_h");
  const int64_t parts = choice(c, "direction") == 2 ? 2 : 1;
  if (w[0] != parts || w[2] < 1 || w[1] != gates * w[2])
    c.shape_error("weight_h has shape ", w, " but must have [", parts, ", ", gates, " H, H] with direction '",
                  c.attr<std::string>("direction"), "'");
  const Extents e{parts, w[2], expect_offsets(c, "offsets"), rows};
  expect_each(c, states, e.by_sequence());
  return e;
}

// The forward operators: checks x_gates [T, S * gates * H].
Extents expect_forward(const InferContext& c, int64_t gates, Names states) {
  c.expect_rank("x_gates", 2);
  const Extents e = expect_cell(c, gates, c.shape("x_gates")[0], states);
  c.expect_dtype("x_gates", c.in("weight_h").dtype);
  c.expect_shape("x_gates", e.by_row(gates));
  return e;
}

// The gradients: checks what the forward operator gave of T rows, and the gradients by it. Saved gates are always 4.
Extents expect_backward(const InferContext& c, int64_t gates, Names states, Names outputs) {
  c.expect_rank("y", 2);
  const Extents e = expect_cell(c, gates, c.shape("y")[0], states);
  expect_each(c, outputs, e.by_row(1));
  expect_each(c, {"gates", "dgates"}, e.by_row(4));
  return e;
}

constexpr const char* kLetters =
    "T rows in all, B sequences, H hidden units, S directions: 2 with 'both', otherwise 1. offsets: int32 or int64 "
    "[B + 1], rising from 0 to T: sequence b has rows offsets[b] ... offsets[b + 1] - 1; h0";

PADDOCK_OP(lstm, "x_gates, weight_h, offsets, h0?, c0? -> y, h, c, gates, cells")
    .doc(cat("Long short-term memory (Hochreiter and Schmidhuber 1997, with forget gates): with h and c the state "
             "after the row before, at first h0 and c0, or 0,\n\n"
             "    i, f, g, o = parts of x_gates + weight_h h,  c' = sigmoid(f) c + sigmoid(i) tanh(g),\n"
             "    h' = sigmoid(o) tanh(c')\n\n"
             "The order i, f, g, o is PyTorch's and Paddle's; ONNX has i, o, f, g. Biases belong to x_gates.\n\n",
             kLetters,
             ", c0: [S, B, H].  x_gates: [T, S * 4 H]; weight_h: [S, 4 H, H]; y: [T, S * H], every h'; h, c: [S, B, "
             "H], the last state; gates: [T, S * 4 H], after sigmoid and tanh, and cells: [T, S * H], every c', are "
             "what the gradient reads."))
    .attr("direction", AttrType::kString, std::string("forward"), kDirectionDoc)
    .choices({"forward", "reverse", "both"})
    .inplace("x_gates", "gates")
    .checks(DataCheck::kOffsets, "offsets", [](const InferContext& c) { return c.shape("x_gates")[0]; })
    .flops([](const InferContext& c) { return steps_flops(c.shape("x_gates"), c.shape("weight_h")); })
    .infer([](InferContext& c) {
      const Extents e = expect_forward(c, 4, {"h0", "c0"});
      const DType type = c.in("x_gates").dtype;
      c.out("y", e.by_row(1), type);
      c.out("h", e.by_sequence(), type);
      c.out("c", e.by_sequence(), type);
      c.out("gates", e.by_row(4), type);
      c.out("cells", e.by_row(1), type);
    });

PADDOCK_OP(lstm_grad,
           "y, gates, cells, weight_h, offsets, h0?, c0?, dy?, dh?, dc?, dgates?, dcells? -> dx_gates, dweight_h, dh0, "
           "dc0")
    .doc(cat("Gradients of lstm, back through time; an absent gradient counts as 0.\n\n", kLetters,
             ", c0, dh, dc, dh0, dc0: [S, B, H].  y, cells, dy, dcells: [T, S * H]; gates, dgates, dx_gates: [T, S * 4 "
             "H]; weight_h, dweight_h: [S, 4 H, H]."))
    .attr("direction", AttrType::kString, std::string("forward"), kDirectionDoc)
    .choices({"forward", "reverse", "both"})
    .inplace("gates", "dx_gates")
    .checks(DataCheck::kOffsets, "offsets", [](const InferContext& c) { return c.shape("y")[0]; })
    .internal()
    .flops([](const InferContext& c) { return 2 * steps_flops(c.shape("y"), c.shape("weight_h")); })
    .infer([](InferContext& c) {
      const Extents e = expect_backward(c, 4, {"h0", "c0", "dh", "dc"}, {"y", "dy", "cells", "dcells"});
      const DType type = c.in("y").dtype;
      c.out("dx_gates", e.by_row(4), type);
      c.out("dweight_h", c.shape("weight_h"), type);
      c.out("dh0", e.by_sequence(), type);
      c.out("dc0", e.by_sequence(), type);
    });

PADDOCK_OP(gru, "x_gates, weight_h, offsets, bias_h?, h0? -> y, h, gates")
    .doc(cat("Gated recurrent unit (Cho et al. 2014) in the form of cuDNN, PyTorch and Paddle, where the reset gate "
             "acts after the product (linear_before_reset in ONNX): with h the state after the row before, at first "
             "h0, or 0,\n\n"
             "    (r, z, n) = parts of x_gates,  (u, v, w) = parts of weight_h h + bias_h,\n"
             "    h' = (1 - s) tanh(n + sigmoid(r + u) w) + s h  with s = sigmoid(z + v)\n\n"
             "The order r, z, n is PyTorch's and Paddle's; ONNX has z, r, n.\n\n",
             kLetters,
             ": [S, B, H].  x_gates: [T, S * 3 H]; weight_h: [S, 3 H, H]; bias_h: [S, 3 H]; y: [T, S * H], every h'; "
             "h: [S, B, H], the last state; gates: [T, S * 4 H], sigmoid(r + u), s, the tanh and w, is what the "
             "gradient reads."))
    .attr("direction", AttrType::kString, std::string("forward"), kDirectionDoc)
    .choices({"forward", "reverse", "both"})
    .checks(DataCheck::kOffsets, "offsets", [](const InferContext& c) { return c.shape("x_gates")[0]; })
    .flops([](const InferContext& c) { return steps_flops(c.shape("x_gates"), c.shape("weight_h")); })
    .infer([](InferContext& c) {
      const Extents e = expect_forward(c, 3, {"h0"});
      expect_each(c, {"bias_h"}, {e.parts, 3 * e.hidden});
      const DType type = c.in("x_gates").dtype;
      c.out("y", e.by_row(1), type);
      c.out("h", e.by_sequence(), type);
      c.out("gates", e.by_row(4), type);
    });

PADDOCK_OP(gru_grad, "y, gates, weight_h, offsets, h0?, dy?, dh?, dgates? -> dx_gates, dweight_h, dbias_h, dh0")
    .doc(cat("Gradients of gru, back through time; an absent gradient counts as 0.\n\n", kLetters,
             ", dh, dh0: [S, B, H].  y, dy: [T, S * H]; gates, dgates: [T, S * 4 H]; dx_gates: [T, S * 3 H]; weight_h, "
             "dweight_h: [S, 3 H, H]; dbias_h: [S, 3 H]."))
    .attr("direction", AttrType::kString, std::string("forward"), kDirectionDoc)
    .choices({"forward", "reverse", "both"})
    .checks(DataCheck::kOffsets, "offsets", [](const InferContext& c) { return c.shape("y")[0]; })
    .internal()
    .flops([](const InferContext& c) { return 2 * steps_flops(c.shape("y"), c.shape("weight_h")); })
    .infer([](InferContext& c) {
      const Extents e = expect_backward(c, 3, {"h0", "dh"}, {"y", "dy"});
      const DType type = c.in("y").dtype;
      c.out("dx_gates", e.by_row(3), type);
      c.out("dweight_h", c.shape("weight_h"), type);
      c.out("dbias_h", {e.parts, 3 * e.hidden}, type);
      c.out("dh0", e.by_sequence(), type);
    });

}  // namespace
}  // namespace paddock
