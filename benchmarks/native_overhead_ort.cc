// Times calls of an ONNX file of one float32 input [4] through ONNX Runtime's C interface:
// native_overhead_ort LIBRARY FILE CALLS. Prints microseconds of a call, the mean of CALLS calls. Input and output are
// made once and given to each call, which is the cheapest way that the interface has.
//
// Its package for Python has the library and no headers. The interface is a table of functions whose order is kept for
// good; those of version 1 that are called here are named by their place in it.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

enum Place {
  kMessage = 2,
  kEnv = 3,
  kSession = 7,
  kRun = 9,
  kOptions = 10,
  kLevel = 23,
  kThreads = 24,
  kTensor = 49,
  kMemory = 69
};

struct Base {
  const void* const* (*get)(uint32_t version);
  const char* (*version)();
};

const void* const* table = nullptr;

template <class... Arguments>
void call(Place place, Arguments... arguments) {
  void* status = reinterpret_cast<void* (*)(Arguments...)>(const_cast<void*>(table[place]))(arguments...);
  if (!status) return;
  std::fprintf(stderr, "%s\n", reinterpret_cast<const char* (*)(void*)>(const_cast<void*>(table[kMessage]))(status));
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  void* library = dlopen(argv[1], RTLD_NOW);
  void* entry = library ? dlsym(library, "OrtGetApiBase") : nullptr;
  if (!entry) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const Base* base = reinterpret_cast<const Base* (*)()>(entry)();
  table = base->get(1);
  void *env = nullptr, *options = nullptr, *session = nullptr, *memory = nullptr, *x = nullptr, *y = nullptr;
  constexpr int kWarning = 2, kNoRewriting = 0, kArena = 1, kDefault = 0, kFloat = 1;
  call(kEnv, kWarning, "native_overhead", &env);
  call(kOptions, &options);
  call(kLevel, options, kNoRewriting);
  call(kThreads, options, 1);
  call(kSession, env, static_cast<const char*>(argv[2]), options, &session);
  call(kMemory, kArena, kDefault, &memory);
  float in[4] = {1, -1, 2, -2}, out[4] = {};
  const int64_t shape[] = {4};
  call(kTensor, memory, static_cast<void*>(in), sizeof in, shape, size_t{1}, kFloat, &x);
  call(kTensor, memory, static_cast<void*>(out), sizeof out, shape, size_t{1}, kFloat, &y);
  const char *inputs[] = {"x"}, *outputs[] = {"y"};
  const auto run = [&] {
    call(kRun, session, static_cast<void*>(nullptr), inputs, &x, size_t{1}, outputs, size_t{1}, &y);
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
  std::printf("%.4f %s\n", taken.count() / calls, base->version());
  return 0;
}
