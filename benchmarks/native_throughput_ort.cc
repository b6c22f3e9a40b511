// The same through ONNX Runtime's C interface: native_throughput_ort LIBRARY FILE SESSIONS THREADS INPUTS TENSOR...
// SESSIONS is 1, for one session that all threads run, or THREADS, for one each. Memory of outputs is given, which is
// the cheapest way that the interface has.
#include "native_turns.h"
#include "ort_interface.h"

namespace {

// The tensors as ONNX Runtime takes them, and their names.
struct Values {
  explicit Values(std::vector<turns::Tensor>& of) {
    for (turns::Tensor& t : of) {
      const int type = t.type == "float32" ? ort::kFloat : ort::kInt64;
      values.push_back(ort::tensor_of(t.memory.data(), t.bytes(), t.shape.data(), t.shape.size(), type));
      names.push_back(t.name.c_str());
    }
  }
  std::vector<void*> values;
  std::vector<const char*> names;
};

struct Work {
  explicit Work(const turns::Arguments& of) : tensors(of), inputs(tensors.inputs), outputs(tensors.outputs) {}
  void run(void* session) {
    ort::call(ort::kRun, session, static_cast<void*>(nullptr), inputs.names.data(), inputs.values.data(),
              inputs.values.size(), outputs.names.data(), outputs.names.size(), outputs.values.data());
  }
  turns::Arguments tensors;
  Values inputs, outputs;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw std::runtime_error("arguments are missing");
    const turns::Arguments a = turns::arguments_of(argc, argv, 4);
    ort::open(argv[1]);
    void* env = nullptr;
    ort::call(ort::kEnv, ort::kWarning, "native_throughput", &env);
    std::vector<void*> sessions;
    for (int i = 0; i < std::atoi(argv[3]); ++i) sessions.push_back(ort::session_of(env, argv[2], ort::kAllRewriting));
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < a.threads; ++i) works.push_back(std::make_unique<Work>(a));
    works[0]->run(sessions[0]);
    for (const turns::Tensor& t : works[0]->tensors.outputs) turns::write(t, t.memory.data());
    std::vector<std::function<void()>> runs;
    for (size_t i = 0; i < works.size(); ++i)
      runs.emplace_back([&, i] { works[i]->run(sessions[i % sessions.size()]); });
    turns::serve(runs);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "native_throughput_ort: %s\n", e.what());
    return 1;
  }
  return 0;
}
