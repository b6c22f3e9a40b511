// Tensors of a safetensors file, in the memory of the file itself.
#pragma once
#include <map>
#include <string>

#include "core/tensor.h"
#include "predictor/outside.h"

namespace paddock::predictor {

// Whether tensors are copied out of the file's memory: those that do not lie as their type must, those too but into
// memory that is wiped, or all.
enum class Copies { kWhereNeeded, kWiped, kAlways };

// By name. Tensors that are not copied share `file`, which lies at `path` or is called so.
std::map<std::string, Tensor, std::less<>> load_tensors(const std::string& path, const FileBytes& file, Copies copies);

}  // namespace paddock::predictor
