// Shape inference, lifetimes, in-place decisions and placement for one program and one set of input types.
#include "plan/plan.h"

#include <algorithm>

#include "op/context.h"

namespace paddock {
namespace {

constexpr int kNever = -1;

// A check that has passed: of the data of one value, against one limit.
struct Passed {
  DataCheck::Kind kind;
  int root;
  int64_t limit, ignored;  // of labels: which one is ignored
  bool from_end;           // of labels

  // Whether data that passed this one passes `other` too.
  bool covers(const Passed& other) const {
    if (root != other.root || limit != other.limit) return false;
    if (kind == DataCheck::kFilled) return other.kind == kind || other.kind == DataCheck::kOffsets;
    if (kind == DataCheck::kIndices)
      return other.kind != DataCheck::kOffsets && other.kind != DataCheck::kFilled && other.kind != DataCheck::kTuples;
    return kind == other.kind && ignored == other.ignored && from_end == other.from_end;
  }
};

// Whether a kernel may fail for reasons of its own, after it has begun to write.
bool fails_late(const Instruction& ins) { return ins.op->fails_late_fn && ins.op->fails_late_fn(*ins.op, ins.attrs); }

class Planner {
 public:
  Planner(const ProgramDesc& program, const std::vector<int>& refusing, std::vector<TensorType> input_types)
      : p_(program), refusing_(refusing) {
    plan_.input_types = std::move(input_types);
    plan_.types.resize(p_.value_count);
    plan_.places.resize(p_.value_count);
    plan_.root.resize(p_.value_count);
    plan_.update_copied.assign(p_.updates.size(), true);
    plan_.update_written_at.assign(p_.updates.size(), kNever);
    plan_.result_copied.assign(p_.results.size(), true);
  }

  Plan build() {
    place_externals();
    infer();
    find_lifetimes();
    find_last_refusal();
    claim_states();
    claim_results();
    share_buffers();
    place_temporaries();
    return std::move(plan_);
  }

 private:
  void place_externals() {
    for (int v = 0; v < p_.first_temporary(); ++v) {
      if (v < p_.first_constant()) {
        plan_.types[v] = plan_.input_types[v];
        bool input = v < p_.input_count;
        plan_.places[v] = {input ? Place::kInput : Place::kState, input ? v : v - p_.input_count};
      } else {
        int i = v - p_.first_constant();
        plan_.types[v] = p_.constants[i].type();
        plan_.places[v] = {Place::kConstant, i};
      }
      plan_.root[v] = v;
    }
  }

  void infer() {
    std::vector<const TensorType*> in;
    for (size_t k = 0; k < p_.instructions.size(); ++k) {
      const auto& ins = p_.instructions[k];
      in.clear();
      for (int v : ins.inputs) in.push_back(v == kAbsent ? nullptr : &plan_.types[v]);
      auto out = infer_at(k, in);
      for (size_t i = 0; i < ins.outputs.size(); ++i) {
        plan_.types[ins.outputs[i]] = out[i];
        plan_.root[ins.outputs[i]] = ins.outputs[i];
      }
      if (!in.empty() && in[0] && !out.empty() && ins.op->is_view_of(*in[0], out[0]))
        plan_.root[ins.outputs[0]] = plan_.root[ins.inputs[0]];
    }
  }

  // An error says at which instruction, so that Python can add the user's line.
  std::vector<TensorType> infer_at(size_t k, const std::vector<const TensorType*>& in) const {
    const auto& ins = p_.instructions[k];
    try {
      return infer_types(*ins.op, in.data(), static_cast<int>(in.size()), ins.attrs);
    } catch (const Error& e) {
      fail(e.kind(), e.what(), " [operation ", k, "]");
    }
  }

  bool shape_only(const Instruction& ins, size_t i) const {
    return ins.op->inputs[std::min(i, ins.op->inputs.size() - 1)].shape_only;
  }

  // Steps are instruction numbers; a root is alive from its definition to the last read of any of its views.
  void find_lifetimes() {
    first_.assign(p_.value_count, kNever);
    last_.assign(p_.value_count, kNever);
    const int steps = static_cast<int>(p_.instructions.size());
    for (int k = 0; k < steps; ++k) {
      const auto& ins = p_.instructions[k];
      for (size_t i = 0; i < ins.inputs.size(); ++i)
        if (ins.inputs[i] != kAbsent && !shape_only(ins, i)) last_[plan_.root[ins.inputs[i]]] = k;
      for (int v : ins.outputs)
        if (plan_.root[v] == v) first_[v] = last_[v] = k;
    }
    for (int v : p_.results) last_[plan_.root[v]] = steps;
    // What an update copies at the end must live until then.
    for (const auto& u : p_.updates) last_[plan_.root[u.value]] = steps;
  }

  // The last instruction that may refuse its data. What an earlier one has checked is not counted again: the gradient
  // of a lookup cannot refuse what the lookup took.
  void find_last_refusal() {
    std::vector<Passed> passed;
    for (int k : refusing_) {
      const auto& ins = p_.instructions[k];
      bool may_refuse = fails_late(ins);
      for (const DataCheck& check : ins.op->data_checks) {
        if (check.input >= static_cast<int>(ins.inputs.size()) || ins.inputs[check.input] == kAbsent) continue;
        const Passed now = check_at(ins, check);
        if (std::any_of(passed.begin(), passed.end(), [&](const Passed& p) { return p.covers(now); })) continue;
        may_refuse = true;
        passed.push_back(now);
      }
      if (may_refuse) last_refusal_ = k;
    }
  }

  Passed check_at(const Instruction& ins, const DataCheck& check) const {
    std::vector<const TensorType*> types;
    for (int v : ins.inputs) types.push_back(v == kAbsent ? nullptr : &plan_.types[v]);
    std::vector<TensorType> unused;
    const InferContext c(*ins.op, types.data(), static_cast<int>(types.size()), ins.attrs, unused);
    const bool labels = check.kind == DataCheck::kLabels;
    return {check.kind, plan_.root[ins.inputs[check.input]], check.limit(c),
            labels ? c.attr<int64_t>("ignore_index") : 0, labels && c.attr<bool>("from_end")};
  }

  // A failed run leaves states as they were: none is written before the last instruction that may refuse its data. That
  // one may write, since it checks first, unless it runs code that we do not know.
  bool may_write_state(int k) const {
    return k > last_refusal_ || (k == last_refusal_ && !p_.instructions[k].op->data_checks.empty());
  }

  bool temporary(int v) const { return v >= p_.first_temporary() && plan_.places[v].kind == Place::kNone; }

  bool may_share(const Instruction& ins, int in_root, int out) const {
    for (const auto& fact : ins.op->in_place) {
      if (fact.input >= static_cast<int>(ins.inputs.size()) || fact.output >= static_cast<int>(ins.outputs.size()))
        continue;
      int v = ins.inputs[fact.input];
      if (v == kAbsent || ins.outputs[fact.output] != out || plan_.root[v] != in_root) continue;
      if (plan_.types[v].bytes() != plan_.types[out].bytes()) continue;
      int uses = 0;
      for (size_t i = 0; i < ins.inputs.size(); ++i)
        uses += ins.inputs[i] != kAbsent && !shape_only(ins, i) && plan_.root[ins.inputs[i]] == in_root;
      if (uses == 1) return true;
    }
    return false;
  }

  // An updated state's new value is written straight into the state's buffer when nobody reads the old value
  // any more.
  void claim_states() {
    for (size_t i = 0; i < p_.updates.size(); ++i) {
      auto [state, value] = p_.updates[i];
      int state_value = p_.first_state() + state;
      if (plan_.root[value] != value || !temporary(value)) continue;
      if (plan_.types[value].bytes() != plan_.types[state_value].bytes()) continue;
      int old_read = last_[state_value];
      bool free = old_read < first_[value] ||
                  (old_read == first_[value] && may_share(p_.instructions[first_[value]], state_value, value));
      if (!free || !may_write_state(first_[value])) continue;
      plan_.places[value] = {Place::kState, state};
      plan_.update_copied[i] = false;
      plan_.update_written_at[i] = first_[value];
      plan_.in_place_count += old_read == first_[value];
    }
  }

  // A result that is a whole temporary is computed straight into the caller's memory.
  void claim_results() {
    for (size_t i = 0; i < p_.results.size(); ++i) {
      int v = p_.results[i];
      if (plan_.root[v] != v || !temporary(v)) continue;
      plan_.places[v] = {Place::kResult, static_cast<int>(i)};
      plan_.result_copied[i] = false;
    }
  }

  // In place by declared facts: the output joins the block of an input that dies at this instruction.
  void share_buffers() {
    block_of_.assign(p_.value_count, -1);
    for (int k = 0; k < static_cast<int>(p_.instructions.size()); ++k) {
      for (int v : p_.instructions[k].outputs) {
        if (plan_.root[v] != v || !temporary(v)) continue;
        int block = shared_block(p_.instructions[k], k, v);
        if (block < 0) {
          block = static_cast<int>(blocks_.size());
          blocks_.push_back({plan_.types[v].bytes(), k, last_[v]});
        } else {
          blocks_[block].last = last_[v];
          ++plan_.in_place_count;
        }
        block_of_[v] = block;
        plan_.naive_bytes += plan_.types[v].bytes();
      }
    }
  }

  int shared_block(const Instruction& ins, int k, int out) const {
    for (const auto& fact : ins.op->in_place) {
      if (fact.input >= static_cast<int>(ins.inputs.size()) || ins.inputs[fact.input] == kAbsent) continue;
      int r = plan_.root[ins.inputs[fact.input]];
      if (block_of_[r] >= 0 && last_[r] == k && blocks_[block_of_[r]].last == k && may_share(ins, r, out))
        return block_of_[r];
    }
    return -1;
  }

  void place_temporaries() {
    plan_.arena_bytes = place_blocks(blocks_);
    plan_.lower_bound = lower_bound_bytes(blocks_);
    for (int v = p_.first_temporary(); v < p_.value_count; ++v)
      if (block_of_[v] >= 0) plan_.places[v] = {Place::kArena, 0, blocks_[block_of_[v]].offset};
    for (int v = p_.first_temporary(); v < p_.value_count; ++v) plan_.places[v] = plan_.places[plan_.root[v]];
  }

  const ProgramDesc& p_;
  const std::vector<int>& refusing_;
  Plan plan_;
  std::vector<int> first_, last_, block_of_;
  int last_refusal_ = kNever;
  std::vector<Block> blocks_;
};

}  // namespace

std::vector<int> refusing_instructions(const ProgramDesc& program) {
  std::vector<int> found;
  for (size_t k = 0; k < program.instructions.size(); ++k) {
    const Instruction& ins = program.instructions[k];
    if (!ins.op->data_checks.empty() || fails_late(ins)) found.push_back(static_cast<int>(k));
  }
  return found;
}

Plan make_plan(const ProgramDesc& program, const std::vector<int>& refusing, std::vector<TensorType> input_types) {
  return Planner(program, refusing, std::move(input_types)).build();
}

}  // namespace paddock
