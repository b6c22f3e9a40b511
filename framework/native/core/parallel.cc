// The process's only thread pool: started at first use, workers spin briefly for the next job and then sleep.
#include "core/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "core/cores.h"
#include "core/error.h"
#include "core/subnormal.h"

namespace paddock {
namespace {

constexpr int kSpins = 4000;  // some 50 microseconds: longer than the gap between two operators of a program

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" : : : "memory");  // tens of cycles, as x86-64's pause; `yield` takes one
#endif
}

thread_local bool inside_parallel = false;

// The indices [next, end) of a job that are one thread's own, as long as no other thread helps with them.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

// Each thread begins with a share of neighbouring indices, the same in every job of this size: what it wrote in the
// operator before is in its own caches. Who is done helps the others.
struct Job {
  Job(int64_t n, int64_t grain, const FunctionRef<void(int64_t, int64_t)>& body, std::span<Share> shares)
      : grain(grain), body(body), shares(shares) {
    const int64_t pieces = (n + grain - 1) / grain, count = static_cast<int64_t>(shares.size());
    for (int64_t i = 0; i < count; ++i) {
      Share& share = shares[static_cast<size_t>(i)];
      share.next.store(i * pieces / count * grain, std::memory_order_relaxed);
      share.end = std::min(n, (i + 1) * pieces / count * grain);
    }
  }

  const int64_t grain;
  const FunctionRef<void(int64_t, int64_t)>& body;
  const std::span<Share> shares;
  std::atomic<int> helpers{0};  // workers that took the job and have not left it
  std::mutex error_mutex{};
  std::exception_ptr error{};

  void work(size_t thread) {
    for (size_t i = 0; i < shares.size(); ++i) finish(shares[(thread + i) % shares.size()]);
  }

 private:
  void finish(Share& share) {
    for (;;) {
      const int64_t begin = share.next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= share.end) return;
      try {
        body(begin, std::min(begin + grain, share.end));
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        for (Share& other : shares) other.next.store(other.end, std::memory_order_relaxed);
      }
    }
  }
};

void run_inline(int64_t n, int64_t grain, const FunctionRef<void(int64_t, int64_t)>& body) {
  for (int64_t begin = 0; begin < n; begin += grain) body(begin, std::min(begin + grain, n));
}

class Pool {
 public:
  int size() const { return size_.load(std::memory_order_relaxed); }

  void resize(int n) {
    std::lock_guard use(use_mutex_);
    stop_workers();
    size_ = n;
  }

  void run(int64_t n, int64_t grain, const FunctionRef<void(int64_t, int64_t)>& body) {
    std::unique_lock use(use_mutex_, std::try_to_lock);
    if (!use) return run_inline(n, grain, body);  // another Python thread computes: work alone rather than wait
    start_workers();
    Job job(n, grain, body, shares_);
    publish(&job);
    wake_.notify_all();
    inside_parallel = true;
    job.work(0);
    inside_parallel = false;
    publish(nullptr);  // from here on no further worker takes it; wait for those that did
    for (int spins = 0; job.helpers.load(std::memory_order_acquire) != 0; ++spins) {
      relax();
      if (spins > kSpins) std::this_thread::yield();
    }
    if (job.error) std::rethrow_exception(job.error);
  }

  // A forked child has none of the threads: forget them and the locks they may have held.
  void after_fork() {
    new (&mutex_) std::mutex;
    new (&use_mutex_) std::mutex;
    new (&wake_) std::condition_variable;
    new (&workers_) std::vector<std::thread>;
    job_ = nullptr;
    stopping_ = false;
  }

 private:
  void publish(Job* job) {
    std::lock_guard lock(mutex_);
    job_ = job;
    if (job) ticket_.fetch_add(1, std::memory_order_release);
  }

  // A thread that the system refuses is done without, until the next resize: num_threads() then says how many there
  // are.
  void start_workers() {
    try {
      while (static_cast<int>(workers_.size()) < size() - 1)
        workers_.emplace_back([this, seen = ticket_.load(), thread = workers_.size() + 1] { loop(seen, thread); });
    } catch (const std::system_error&) {
      size_ = static_cast<int>(workers_.size()) + 1;
    }
    if (shares_.size() != workers_.size() + 1) shares_ = std::vector<Share>(workers_.size() + 1);
  }

  void stop_workers() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      ticket_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (auto& t : workers_) t.join();
    workers_.clear();
    stopping_ = false;
  }

  void loop(uint64_t seen, size_t thread) {
    inside_parallel = true;
    for (;;) {
      for (int i = 0; i < kSpins && ticket_.load(std::memory_order_acquire) == seen; ++i) relax();
      Job* job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return ticket_.load(std::memory_order_relaxed) != seen; });
        seen = ticket_.load(std::memory_order_relaxed);
        if (stopping_) return;
        job = job_;
        if (job) job->helpers.fetch_add(1, std::memory_order_relaxed);
      }
      if (!job) continue;
      {
        const FlushScope flush;
        job->work(thread);
      }
      job->helpers.fetch_sub(1, std::memory_order_release);
    }
  }

  std::atomic<int> size_{available_cores()};
  std::atomic<uint64_t> ticket_{0};
  std::mutex mutex_, use_mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
  std::vector<Share> shares_;  // one for each thread
  Job* job_ = nullptr;
  bool stopping_ = false;
};

// Never destroyed: worker threads may still wait in it when the process exits.
Pool* instance = nullptr;

Pool& pool() {
  static Pool& p = [&]() -> Pool& {
    instance = new Pool;
    pthread_atfork(nullptr, nullptr, [] { instance->after_fork(); });
    return *instance;
  }();
  return p;
}

}  // namespace

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  grain = std::max<int64_t>(grain, 1);
  if (n <= 0) return;
  if (inside_parallel || n <= grain || pool().size() == 1)
    run_inline(n, grain, body);
  else
    pool().run(n, grain, body);
}

int num_threads() { return pool().size(); }

void set_num_threads(int n) {
  if (n < 1 || n > 1024) fail(ErrorKind::kAttribute, "set_num_threads: got ", n, "; takes 1 to 1024");
  pool().resize(n);
}

}  // namespace paddock
