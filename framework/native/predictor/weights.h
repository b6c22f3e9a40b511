// Tensors of a safetensors file, in the memory of the file itself.
#pragma once
#include <map>
#include <string>

#include "core/tensor.h"
#include "predictor/outside.h"

namespace paddock::predictor {

// By name. They share the mapped file, or with `map` false memory of their own that holds the file.
std::map<std::string, Tensor, std::less<>> load_tensors(const std::string& path, const Limits& limits, bool map);

}  // namespace paddock::predictor
