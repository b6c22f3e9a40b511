// Times calls of an exported model through paddock.hpp: native_overhead EXPORT CALLS [KEY]
// Inputs are zeros in the shapes of the export. Prints milliseconds of loading and of the first call, then microseconds
// of a call, from the mean of CALLS calls. KEY: the source of the key that encrypted the export.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <paddock.hpp>

namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  const int calls = std::atoi(argv[2]);
  try {
    paddock::Options options;
    if (argc == 4) options.decrypt(argv[3]);
    const auto start = Clock::now();
    paddock::Predictor model(argv[1], options);
    const double loaded = microseconds_since(start);
    std::vector<std::vector<double>> memory;  // of doubles, so that it is aligned for every type
    std::vector<paddock::TensorView> inputs;
    for (const auto& info : model.inputs()) {
      paddock::TensorView view(info.type, nullptr, info.shape);
      memory.emplace_back(view.bytes() / sizeof(double) + 1);
      inputs.emplace_back(info.type, memory.back().data(), info.shape);
    }
    const auto before = Clock::now();
    model.run(inputs);
    const double first = microseconds_since(before);
    const auto loop = Clock::now();
    for (int i = 0; i < calls; ++i) model.run(inputs);
    std::printf("%.3f %.3f %.4f\n", loaded / 1000, first / 1000, calls ? microseconds_since(loop) / calls : 0);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "native_overhead: %s\n", e.what());
    return 1;
  }
  return 0;
}
