// Clones of an export through paddock.hpp, each in a thread of its own: native_throughput EXPORT THREADS INPUTS
// TENSOR...
#include <paddock.hpp>

#include "native_turns.h"

namespace {

paddock_type type_of(const turns::Tensor& t) { return t.type == "float32" ? PADDOCK_FLOAT32 : PADDOCK_INT64; }

}  // namespace

int main(int argc, char** argv) {
  try {
    const turns::Arguments a = turns::arguments_of(argc, argv, 2);
    paddock::expect_ok(paddock_set_threads(1));  // a thread of ours runs its kernels by itself
    std::vector<paddock::Predictor> models;
    models.emplace_back(argv[1]);
    std::vector<paddock::TensorView> inputs;
    for (const turns::Tensor& t : a.inputs) inputs.emplace_back(type_of(t), t.memory.data(), t.shape);
    const auto first = models[0].run(inputs);
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      if (first.at(i).type() != type_of(a.outputs[i]) || first[i].bytes() != a.outputs[i].bytes())
        throw std::runtime_error(a.outputs[i].name + " is of another type or size");
      turns::write(a.outputs[i], first[i].raw_data());
    }
    while (static_cast<int>(models.size()) < a.threads) models.push_back(models[0].clone());
    std::vector<std::function<void()>> runs;
    for (paddock::Predictor& model : models) runs.emplace_back([&] { model.run(inputs); });
    turns::serve(runs);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "native_throughput: %s\n", e.what());
    return 1;
  }
  return 0;
}
