// Building a module, and its twins.
#include "predictor/module.h"

#include <utility>

namespace paddock::predictor {
namespace {

std::unique_ptr<ControlOp> operator_of(const std::string& kind, const std::vector<std::unique_ptr<Module>>& blocks) {
  std::vector<Executable*> executables;
  for (const auto& b : blocks) executables.push_back(&b->executable());
  return std::make_unique<ControlOp>(kind, std::move(executables));
}

}  // namespace

Module::Module(ProgramDesc program, std::vector<ControlUse> uses, std::vector<std::string> lines)
    : uses_(std::move(uses)),
      lines_(std::make_shared<const std::vector<std::string>>(std::move(lines))),
      executable_(std::make_unique<Executable>(std::move(program))) {}

std::unique_ptr<Module> Module::twin() const {
  std::unique_ptr<Module> other(new Module);
  ProgramDesc program = executable_->program();
  for (const auto& use : uses_) {
    ControlUse own{use.instruction, {}, nullptr};
    for (const auto& block : use.blocks) own.blocks.push_back(block->twin());
    own.op = operator_of(use.op->name, own.blocks);
    program.instructions[use.instruction].op = own.op.get();
    other->uses_.push_back(std::move(own));
  }
  other->lines_ = lines_;
  other->executable_ = std::make_unique<Executable>(std::move(program), executable_.get());
  return other;
}

int64_t Module::arena_bytes() const {
  const auto plan = executable_->last_plan();
  int64_t bytes = plan ? plan->arena_bytes : 0;
  for (const auto& use : uses_)
    for (const auto& block : use.blocks) bytes += block->arena_bytes();
  return bytes;
}

void Module::list(std::map<int64_t, const Module*>& modules) const {
  modules.emplace(executable_->id(), this);
  for (const auto& use : uses_)
    for (const auto& block : use.blocks) block->list(modules);
}

}  // namespace paddock::predictor
