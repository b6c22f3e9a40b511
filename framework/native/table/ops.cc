// Shape rules and kernels of table_gather and table_update. They are for the CPU, where tables live.
#include "table/ops.h"

#include "op/context.h"

namespace paddock::table {
namespace {

constexpr int kPart = 3;  // keys, grads, clicked

Table& table_of(const OpDef& op) { return *static_cast<const TableOp&>(op).table; }

void infer_gather(InferContext& c) {
  c.expect_dtype("keys", DType::kI64);
  Shape y = c.shape("keys");
  y.push_back(table_of(c.op()).config().dim);
  c.out(0, y, DType::kF32);
}

void gather(const KernelContext& c) {
  const Tensor& keys = c.in("keys");
  table_of(c.op()).lookup(keys.data<int64_t>(), keys.numel(), c.out(0).data<float>(), c.attr<bool>("train"));
}

// From input `first` on: keys, gradients and clicks of each look-up.
void check_parts(InferContext& c, int first) {
  const int64_t dim = table_of(c.op()).config().dim;
  for (int i = first; i + kPart <= c.input_count(); i += kPart) {
    if (c.in(i).dtype != DType::kI64) c.dtype_error("keys are ", c.in(i).dtype, " but must be int64");
    Shape expected = c.shape(i);
    expected.push_back(dim);
    if (!(c.shape(i + 1) == expected) || c.in(i + 1).dtype != DType::kF32)
      c.shape_error("a gradient is ", c.in(i + 1).dtype, " ", c.shape(i + 1), " but keys ", c.shape(i),
                    " of a table with dim ", dim, " need float32 ", expected);
    const int64_t clicks = c.shape(i + 2).numel(), keys = c.shape(i).numel();
    if (c.in(i + 2).dtype != DType::kF32 || (clicks && keys % clicks != 0))
      c.shape_error("clicks are ", c.in(i + 2).dtype, " ", c.shape(i + 2),
                    " but must be float32, one for each of equal runs of the ", keys, " keys");
  }
}

void infer_update(InferContext& c) {
  for (int i = 0; i < 2; ++i) {
    if (!c.has(i)) continue;
    if (c.shape(i).rank() != 0 || c.in(i).dtype != DType::kF32)
      c.shape_error(c.op().inputs[static_cast<size_t>(i)].name, " must be a float32 number, not ", c.in(i).dtype, " ",
                    c.shape(i));
  }
  check_parts(c, 2);
}

void infer_sum_of_squares(InferContext& c) {
  check_parts(c, 0);
  c.out(0, Shape{}, DType::kF32);
}

std::vector<GradientPart> parts_of(const KernelContext& c, int first) {
  std::vector<GradientPart> parts;
  for (int i = first; i + kPart <= c.input_count(); i += kPart) {
    const int64_t keys = c.in(i).numel();
    if (keys)
      parts.push_back(
          {c.in(i).data<int64_t>(), keys, c.in(i + 1).data<float>(), c.in(i + 2).data<float>(), c.in(i + 2).numel()});
  }
  return parts;
}

void update(const KernelContext& c) {
  const double scale = c.has("grad_scale") ? *c.in("grad_scale").data<float>() : 1.0;
  table_of(c.op()).update(parts_of(c, 2), *c.in("lr").data<float>(), scale);
}

void sum_of_squares(const KernelContext& c) {
  *c.out(0).data<float>() = static_cast<float>(table_of(c.op()).sum_of_squares(parts_of(c, 0)));
}

}  // namespace

TableOp::TableOp(const std::string& kind, std::shared_ptr<Table> of) : table(std::move(of)) {
  name = "table_" + kind;
  family = "table";
  reads_table = kind == "gather";
  writes_table = kind == "update";
  if (writes_table) {
    read_signature(*this, "lr, grad_scale?, parts... -> ");
    doc("One step of the table's rule. parts: keys int64 [...], their gradient float32 [..., dim] and clicks float32 "
        "[m] "
        "of each look-up; m divides the number of keys, or is 0.");
    OpDef::infer(&infer_update).cpu(&update).fails_late([](const OpDef& op, const std::vector<AttrValue>&) {
      return table_of(op).may_refuse();
    });
  } else if (kind == "sum_of_squares") {
    read_signature(*this, "parts... -> y");
    doc("The sum of the squares of a step's gradients, those of equal keys summed first. parts: as in table_update; y: "
        "[].");
    OpDef::infer(&infer_sum_of_squares).cpu(&sum_of_squares);
  } else {
    read_signature(*this, "keys -> y");
    doc("Rows by key.  keys: int64, any shape; y: float32 [*keys.shape, dim].");
    attr("train", AttrType::kBool, false, "Read a key without a row as the row that it would get; otherwise as zeros.");
    OpDef::infer(&infer_gather).cpu(&gather);
  }
}

}  // namespace paddock::table
