// Times calls of an ONNX file of one float32 input [4] through ONNX Runtime's C interface:
// native_overhead_ort LIBRARY FILE CALLS. Prints microseconds of a call, the mean of CALLS calls. Input and output are
// made once and given to each call, which is the cheapest way that the interface has.
#include <chrono>

#include "ort_interface.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* version = ort::open(argv[1]);
  void* env = nullptr;
  ort::call(ort::kEnv, ort::kWarning, "native_overhead", &env);
  void* session = ort::session_of(env, argv[2], ort::kNoRewriting);
  float in[4] = {1, -1, 2, -2}, out[4] = {};
  const int64_t shape[] = {4};
  void* x = ort::tensor_of(in, sizeof in, shape, 1, ort::kFloat);
  void* y = ort::tensor_of(out, sizeof out, shape, 1, ort::kFloat);
  const char *inputs[] = {"x"}, *outputs[] = {"y"};
  const auto run = [&] {
    ort::call(ort::kRun, session, static_cast<void*>(nullptr), inputs, &x, size_t{1}, outputs, size_t{1}, &y);
  };
  run();
  if (out[0] != 1 || out[1] != 0 || out[2] != 2 || out[3] != 0) {
    std::fprintf(stderr, "its results are not those of relu\n");
    return 1;
  }
  const int calls = std::atoi(argv[3]);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) run();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  std::printf("%.4f %s\n", taken.count() / calls, version);
  return 0;
}
