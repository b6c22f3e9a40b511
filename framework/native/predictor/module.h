// A Program with its blocks, ready to run, and its twins: others that run at the same time on the same constants.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan/control.h"

namespace paddock::predictor {

class Module;

// A use of cond, loop or scan.
struct ControlUse {
  size_t instruction;
  std::vector<std::unique_ptr<Module>> blocks;
  std::unique_ptr<ControlOp> op;  // refers to the executables of `blocks`
};

class Module {
 public:
  // `lines`: of each instruction, the line of source that caused it.
  Module(ProgramDesc program, std::vector<ControlUse> uses, std::vector<std::string> lines);

  // Another one with plans and arenas of its own; constants, and what kernels derive from them, are shared.
  std::unique_ptr<Module> twin() const;

  Executable& executable() const { return *executable_; }
  const std::vector<std::string>& lines() const { return *lines_; }
  // Bytes of the arenas that the plans used or prepared last take: its own and those of its blocks.
  int64_t arena_bytes() const;
  // Itself and all blocks by the ids of their executables.
  void list(std::map<int64_t, const Module*>& modules) const;

 private:
  Module() = default;

  std::vector<ControlUse> uses_;
  std::shared_ptr<const std::vector<std::string>> lines_;
  std::unique_ptr<Executable> executable_;
};

}  // namespace paddock::predictor
