// What a kernel derived from an input that never changes, such as packed weights, kept from run to run of a program.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"

namespace paddock {

// The kept blocks of one instruction, shared by a program and its clones, which run at the same time.
struct PreparedBlocks {
  struct Block {
    std::string isa, form;  // who laid it out, and how
    int input;
    TensorType type;  // of the input: one constant may be read under several shapes
    std::shared_ptr<Storage> bytes;
  };
  std::vector<bool> constant;  // by input of the instruction: whether it is the same in every run
  std::vector<Block> blocks;
  std::mutex mutex{};  // of `blocks`; who makes one holds it, so that the others wait for it instead of making a second
};

// Where a kernel keeps what it derives from one input alone; one that is made of nothing keeps nothing.
class PADDOCK_API Prepared {
 public:
  Prepared() = default;
  Prepared(PreparedBlocks* kept, int input, const TensorType& type) : kept_(kept), input_(input), type_(type) {}

  // Whether blocks outlive this call of the kernel. Each is a second copy of the input, so a kernel asks for none that
  // is much larger than the input.
  bool keeps() const { return kept_ != nullptr; }

  // The block kept under `form`, of `bytes` bytes; made by `fill` when there is none. Where nothing is kept, a new one.
  // `form` names all that the content depends on but the input's values and type, the operator's attributes and the
  // instruction set.
  std::shared_ptr<Storage> block(std::string_view form, int64_t bytes, FunctionRef<void(void*)> fill) const;

 private:
  PreparedBlocks* kept_ = nullptr;
  int input_ = 0;
  TensorType type_;
};

}  // namespace paddock
