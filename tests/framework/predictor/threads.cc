// Uses the C interface from several threads at once, for ThreadSanitizer to watch:
//
//   threads FOLDER LIVES
//
// FOLDER holds exports, and a file `secret` for those whose seal asks for one; tests/framework/predictor/threads.py
// makes them, builds this program and runs it. Each thread takes LIVES clones of each export, one after the other:
// pictures are prepared, texts cut, runs made, profiled and reported on, and another thread frees the clone. All
// compare with what one thread alone found. Prints how many runs there were; ends with status 1 where anything differs.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <paddock.hpp>
#include <set>
#include <thread>

namespace {

namespace fs = std::filesystem;
using paddock::expect_ok;

constexpr int kThreads = 4, kRuns = 3;

std::atomic<long> runs{0}, busy{0};

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "threads: %s\n", what.c_str());
  std::_Exit(1);
}

void expect(bool holds, const std::string& what) {
  if (!holds) give_up(what);
}

// All at once, each told its number; what one throws ends the program.
void in_threads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  std::atomic<int> waiting{kThreads};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (--waiting; waiting > 0;) std::this_thread::yield();
      try {
        work(t);
      } catch (const std::exception& e) {
        give_up(e.what());
      }
    });
  for (auto& thread : threads) thread.join();
}

const std::vector<std::string> kTexts = {"The films, unwanted!", "北京 2024", "", "caf\xc3\xa9 un-wanted film [MASK]"};

// Inputs of a run: what they view is kept beside them.
struct Inputs {
  std::vector<paddock::TensorView> views;
  std::vector<std::vector<char>> memory;
  std::vector<paddock::PreparedInputs> prepared;
};

bool takes(const paddock::Predictor& model, const char* name) {
  for (const auto& input : model.inputs())
    if (input.name == name) return true;
  return false;
}

Inputs inputs_of(const paddock::Predictor& model, int number) {
  Inputs made;
  if (takes(model, "images")) {
    const int height = 40 + 9 * number, width = 61;
    std::vector<uint8_t> pixels(static_cast<size_t>(3 * height * width));
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 7 + i / 183 * (3 + number));
    made.prepared.push_back(model.prepare({paddock::Picture{height, width, pixels.data()}}));
    const float boxes[] = {1, 2, 30, 40, -5, 3, 900, 7};
    made.prepared[0].boxes_back(boxes, 2);
  } else if (takes(model, "ids")) {
    made.prepared.push_back(model.prepare(std::vector<std::string>(kTexts.begin(), kTexts.begin() + 1 + number)));
  }
  if (!made.prepared.empty()) {
    made.views = made.prepared[0].inputs();
    return made;
  }
  for (const auto& info : model.inputs()) {
    int64_t count = 1;
    for (const int64_t extent : info.shape) count *= extent;
    const size_t bytes = static_cast<size_t>(count) * paddock_type_size(info.type);
    made.memory.emplace_back(bytes);
    char* data = made.memory.back().data();
    for (int64_t i = 0; i < count; ++i)
      if (info.type == PADDOCK_INT64)
        reinterpret_cast<int64_t*>(data)[i] = 5 + number;
      else if (info.type == PADDOCK_FLOAT32)
        reinterpret_cast<float*>(data)[i] = static_cast<float>(i % 17 - 8 + number) / 8;
    made.views.emplace_back(info.type, data, info.shape);
  }
  return made;
}

std::string bytes_of(const std::vector<paddock::TensorView>& outputs) {
  std::string text;
  for (const auto& output : outputs) text.append(static_cast<const char*>(output.raw_data()), output.bytes());
  return text;
}

paddock::Predictor loaded(const fs::path& folder) {
  paddock::Options options;
  if (fs::exists(folder / "seal.json")) options.decrypt((folder.parent_path() / "secret").string());
  return paddock::Predictor(folder.string(), options);
}

// A clone of what other threads clone as well: of a model with states one at a time can.
paddock::Predictor cloned(const paddock::Predictor& model) {
  for (;;) try {
      return model.clone();
    } catch (const paddock::PredictorError& e) {
      if (e.status() != PADDOCK_BUSY) throw;
      ++busy;
    }
}

// What each of a clone's runs gives, where no other thread is.
std::vector<std::string> alone(const paddock::Predictor& model) {
  paddock::Predictor clone = model.clone();
  std::vector<std::string> found;
  for (int k = 0; k < kRuns; ++k) found.push_back(bytes_of(clone.run(inputs_of(clone, k).views)));
  return found;
}

// Clones that are done with; whoever puts one in frees the one before.
class Outbox {
 public:
  void put(paddock::Predictor clone) {
    auto last = std::make_unique<paddock::Predictor>(std::move(clone));
    const std::lock_guard<std::mutex> turn(lock_);
    last.swap(held_);
  }

 private:
  std::mutex lock_;
  std::unique_ptr<paddock::Predictor> held_;
};

void live(const paddock::Predictor& model, const std::vector<std::string>& expected, Outbox& outbox, int number) {
  paddock::Predictor clone = cloned(model);
  const bool profiles = number % 2;
  if (profiles) clone.set_profiling(true);
  for (int k = 0; k < kRuns; ++k) {
    const Inputs inputs = inputs_of(clone, k);
    expect(bytes_of(clone.run(inputs.views)) == expected[static_cast<size_t>(k)], "a run gave something else");
    ++runs;
  }
  expect(clone.memory_report().size() > 2, "an empty report");
  expect(!profiles || clone.profile().size() > 2, "an empty profile");
  clone.metadata("/suite");
  clone.release();
  outbox.put(std::move(clone));
}

void use_tokenizer(const paddock::Predictor& model) {
  const paddock::Tokenizer shared = model.tokenizer();
  std::vector<std::vector<int64_t>> expected;
  for (const auto& text : kTexts) expected.push_back(shared.encode(text));
  in_threads([&](int) {
    const paddock::Tokenizer own = model.tokenizer();
    for (int round = 0; round < 20; ++round)
      for (size_t i = 0; i < kTexts.size(); ++i)
        expect(shared.encode(kTexts[i]) == expected[i] && own.encode(kTexts[i]) == expected[i], "other tokens");
  });
}

// Tensors of one picture that all threads ask for, and lead boxes back by.
void share_prepared(const paddock::Predictor& model) {
  const Inputs inputs = inputs_of(model, 1);
  const float boxes[] = {1, 2, 30, 40};
  const auto expected = inputs.prepared[0].boxes_back(boxes, 1);
  in_threads([&](int) {
    for (int round = 0; round < 20; ++round) expect(inputs.prepared[0].boxes_back(boxes, 1) == expected, "another box");
  });
}

// One predictor for all threads, which is refused: PADDOCK_BUSY, and nothing else happens.
void contend(paddock::Predictor& model) {
  const std::set<paddock_status> allowed = {PADDOCK_OK, PADDOCK_BUSY, PADDOCK_BAD_STATE};
  in_threads([&](int t) {
    const Inputs inputs = inputs_of(model, t % kRuns);
    const char* text = nullptr;
    for (int round = 0; round < 50; ++round) {
      paddock_tensor output{};
      output.struct_size = sizeof output;
      for (const paddock_status status :
           {paddock_run(model.get(), &inputs.views[0].raw(), static_cast<int32_t>(inputs.views.size())),
            paddock_output(model.get(), 0, &output), paddock_memory_report(model.get(), &text),
            paddock_metadata_at(model.get(), "/suite", &text), paddock_set_profiling(model.get(), round & 1),
            paddock_profile(model.get(), &text), paddock_release_outputs(model.get())}) {
        expect(allowed.count(status), paddock_last_error());
        busy += status == PADDOCK_BUSY;
      }
      expect(model.inputs().size() == inputs.views.size(), "another number of inputs");
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(argv[1]))
    if (entry.is_directory()) folders.push_back(entry.path());
  const int lives = std::atoi(argv[2]);

  // The first calls of the process: kernels are looked for, exports opened, by all threads at once.
  in_threads([&](int t) {
    for (size_t i = 0; i < folders.size(); ++i) loaded(folders[(i + static_cast<size_t>(t)) % folders.size()]);
  });
  for (const auto& folder : folders) {
    const std::vector<std::string> expected = alone(loaded(folder));
    const paddock::Predictor model = loaded(folder);  // nothing is derived from its weights yet
    Outbox outbox;
    in_threads([&](int t) {
      for (int i = 0; i < lives; ++i) {
        if (t == 0) expect_ok(paddock_set_threads(1 + i % 3));
        live(model, expected, outbox, t + i);
      }
    });
    if (takes(model, "ids")) use_tokenizer(model);
    if (takes(model, "images")) share_prepared(model);
    paddock::Predictor one = model.clone();
    contend(one);
  }
  std::printf("%zu exports, %ld runs of clones with the bits of one thread, %ld calls refused as busy\n",
              folders.size(), runs.load(), busy.load());
}
