// ONNX Runtime's C interface without its headers, which its package for Python has not: the interface is a table of
// functions whose order is kept for good; those of version 1 that are called are named by their place in it.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace ort {

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
constexpr int kWarning = 2, kNoRewriting = 0, kAllRewriting = 99, kArena = 1, kDefault = 0;
constexpr int kFloat = 1, kInt64 = 7;  // types of elements

struct Base {
  const void* const* (*get)(uint32_t version);
  const char* (*version)();
};

inline const void* const* table = nullptr;

// Ends the program with the message of a function that fails.
template <class... Arguments>
void call(Place place, Arguments... arguments) {
  void* status = reinterpret_cast<void* (*)(Arguments...)>(const_cast<void*>(table[place]))(arguments...);
  if (!status) return;
  std::fprintf(stderr, "%s\n", reinterpret_cast<const char* (*)(void*)>(const_cast<void*>(table[kMessage]))(status));
  std::exit(1);
}

// Opens the library, for `call`, and returns its version.
inline const char* open(const char* file) {
  void* library = dlopen(file, RTLD_NOW);
  void* entry = library ? dlsym(library, "OrtGetApiBase") : nullptr;
  if (!entry) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  const Base* base = reinterpret_cast<const Base* (*)()>(entry)();
  table = base->get(1);
  return base->version();
}

// A session of a file on one thread.
inline void* session_of(void* env, const char* file, int rewriting) {
  void *options = nullptr, *session = nullptr;
  call(kOptions, &options);
  call(kLevel, options, rewriting);
  call(kThreads, options, 1);
  call(kSession, env, file, options, &session);
  return session;
}

// A tensor over the caller's memory.
inline void* tensor_of(void* data, size_t bytes, const int64_t* shape, size_t rank, int type) {
  void *memory = nullptr, *tensor = nullptr;
  call(kMemory, kArena, kDefault, &memory);
  call(kTensor, memory, data, bytes, shape, rank, type, &tensor);
  return tensor;
}

}  // namespace ort
