// Reads a folder that `save_program` or `paddock export` wrote: program.json and the weights beside it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "predictor/module.h"
#include "predictor/outside.h"
#include "predictor/sealing/keys.h"

namespace paddock::predictor {

struct NamedType {
  std::string name;
  TensorType type;
};

// What a folder holds.
struct Export {
  std::vector<NamedType> inputs, outputs;  // as exported
  std::string fixed_by;  // the line that read a shape, so that inputs have no other; "" where none did
  std::string signer;    // the public key that signed it, 32 bytes; "" where nobody did
  std::string extra;     // JSON text: what the exporter stored beside the Program
  std::vector<std::string> state_names;
  std::vector<Tensor> states;  // in memory of their own
  std::unique_ptr<Module> module;
};

// Throws FileError for what framework.graph.files refuses. A sealed export is opened with `keys`.
Export read_export(const std::string& folder, const Limits& limits, bool map_weights, const sealing::OpeningKeys& keys);

}  // namespace paddock::predictor
