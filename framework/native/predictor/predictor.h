// An exported model, ready to run: what the C interface hands out.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "op/record.h"
#include "predictor/json.h"
#include "predictor/program_file.h"

namespace paddock::predictor {

struct Options {
  Limits limits;
  bool map_weights = true;
  int64_t memory_bytes = 0;  // that a run may plan; 0 for any amount
  sealing::OpeningKeys keys;
};

// Another thread is using the predictor.
class BusyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A run would take more memory than it may.
class MemoryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Predictor {
 public:
  static std::unique_ptr<Predictor> load(const std::string& folder, const Options& options);
  std::unique_ptr<Predictor> clone();

  const std::vector<NamedType>& inputs() const { return about_->inputs; }
  const std::vector<NamedType>& outputs() const { return about_->outputs; }
  bool fixed_shapes() const { return !about_->fixed_by.empty(); }
  // `extra` as it was read, for other parts of the library.
  const Json& metadata() const { return about_->parsed->root(); }
  int64_t pixel_limit() const { return about_->options.limits.pixels; }
  const Limits& limits() const { return about_->options.limits; }
  // Where the export was loaded from.
  const std::string& folder() const { return about_->folder; }
  // The public key that signed the export, in hexadecimal; "" where nobody did.
  const std::string& signer() const { return about_->signer; }
  const std::string& extra() const { return about_->extra; }
  // The part of `extra` at a JSON pointer: a text's own characters, of others their JSON. Lives as long as this.
  const std::string& extra_at(const std::string& pointer);

  // Runs once on tensors of the caller's memory. Results live until the next run.
  void run(std::vector<Tensor> inputs);
  Tensor result(int index);
  void release_results();

  // JSON texts; each lives until the next call.
  const std::string& memory_report();
  void set_profiling(bool on);
  const std::string& profile();

 private:
  class Turn;
  struct About {
    std::vector<NamedType> inputs, outputs;
    std::string fixed_by, signer, extra;
    std::unique_ptr<const JsonDocument> parsed;  // of `extra`
    std::vector<std::string> state_names;
    Options options;
    std::string folder;
  };

  Predictor(std::shared_ptr<const About> about, std::unique_ptr<Module> module, std::vector<Tensor> states)
      : about_(std::move(about)), module_(std::move(module)), states_(std::move(states)) {}
  void check(const std::vector<Tensor>& inputs) const;
  void check_memory(const std::vector<Tensor>& inputs);
  void run_once(const std::vector<Tensor>& inputs);
  int64_t result_bytes() const;

  std::shared_ptr<const About> about_;
  std::unique_ptr<Module> module_;
  std::vector<Tensor> states_, results_;
  bool has_results_ = false;
  std::vector<TensorType> fitting_;  // inputs whose plan was found to fit into the memory that a run may plan
  std::unique_ptr<Recorder> recorder_;
  std::string report_, profile_;
  std::map<std::string, std::string> parts_;  // of `extra`, that were asked for
  std::atomic<int64_t> user_{0};              // the process whose thread is using it; 0: none
};

}  // namespace paddock::predictor
