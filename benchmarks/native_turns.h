// What the two sides of native_throughput.py share: tensors named on the command line, and threads that run in turns.
#pragma once
#include <time.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace turns {

// NAME:TYPE:FILE:EXTENT,... with TYPE float32 or int64; FILE holds an input's elements, and gets an output's.
struct Tensor {
  std::string name, type, file;
  std::vector<int64_t> shape;
  std::vector<double> memory;  // of doubles, so that it is aligned for every type

  size_t bytes() const {
    size_t count = type == "float32" ? 4 : 8;
    for (int64_t extent : shape) count *= static_cast<size_t>(extent);
    return count;
  }
};

inline Tensor tensor_named(const std::string& word) {
  Tensor t;
  std::string extents, extent;
  std::istringstream parts(word);
  std::getline(std::getline(std::getline(parts, t.name, ':'), t.type, ':'), t.file, ':');
  std::getline(parts, extents);
  for (std::istringstream list(extents); std::getline(list, extent, ',');) t.shape.push_back(std::stoll(extent));
  if (t.type != "float32" && t.type != "int64") throw std::runtime_error("no tensor: " + word);
  t.memory.resize(t.bytes() / sizeof(double) + 1);
  return t;
}

struct Arguments {
  int threads;
  std::vector<Tensor> inputs, outputs;
};

// THREADS INPUTS and as many tensors, then the outputs.
inline Arguments arguments_of(int argc, char** argv, int first) {
  if (argc < first + 3) throw std::runtime_error("arguments are missing");
  Arguments a{std::atoi(argv[first]), {}, {}};
  const int behind = first + 2 + std::atoi(argv[first + 1]);
  for (int i = first + 2; i < argc; ++i) (i < behind ? a.inputs : a.outputs).push_back(tensor_named(argv[i]));
  for (Tensor& t : a.inputs) {
    std::ifstream file(t.file, std::ios::binary);
    if (!file.read(reinterpret_cast<char*>(t.memory.data()), static_cast<std::streamsize>(t.bytes())))
      throw std::runtime_error("cannot read " + t.file);
  }
  return a;
}

inline void write(const Tensor& to, const void* data) {
  std::ofstream file(to.file, std::ios::binary);
  if (!file.write(static_cast<const char*>(data), static_cast<std::streamsize>(to.bytes())))
    throw std::runtime_error("cannot write " + to.file);
}

// That the calling thread has had.
inline double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The most memory that was resident since the program began; getrusage's counts what its parent had, too.
inline long peak_megabytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6) / 1024;
  return 0;
}

// A line for each line of the input, which has seconds: every thread calls its function over and over for so long.
inline void serve(const std::vector<std::function<void()>>& runs) {
  using Clock = std::chrono::steady_clock;
  std::printf("ready\n");
  std::fflush(stdout);
  double seconds = 0;
  while (std::scanf("%lf", &seconds) == 1) {
    std::vector<std::thread> threads;
    std::vector<double> rates(runs.size()), costs(runs.size());
    for (size_t i = 0; i < runs.size(); ++i)
      threads.emplace_back([&, i] {
        runs[i]();  // the caches hold another engine's weights
        const auto start = Clock::now();
        const double before = processor_seconds();
        double count = 0, taken = 0;
        while (taken < seconds) {
          runs[i]();
          ++count;
          taken = std::chrono::duration<double>(Clock::now() - start).count();
        }
        rates[i] = count / taken;
        costs[i] = (processor_seconds() - before) / count;
      });
    double rate = 0, cost = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      threads[i].join();
      rate += rates[i];
      cost += costs[i] / static_cast<double>(runs.size());
    }
    std::printf("{\"rate\": %.4f, \"unit\": \"runs/s\", \"cpu_ms\": %.4f, \"peak_rss_mb\": %ld}\n", rate, cost * 1e3,
                peak_megabytes());
    std::fflush(stdout);
  }
}

}  // namespace turns
