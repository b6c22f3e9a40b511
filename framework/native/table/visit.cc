#include "table/visit.h"

#include <pthread.h>

#include <atomic>
#include <thread>

#include "core/storage.h"

namespace paddock::table {
namespace {

std::atomic<int> visitors{0}, forks{0};
thread_local int depth = 0;  // of this thread's visits, of which the outermost counts

void wait_for_visitors() {
  forks.fetch_add(1);
  const int own = depth > 0 ? 1 : 0;
  while (visitors.load() > own) std::this_thread::yield();
}

void let_visitors_in() { forks.fetch_sub(1); }

void start_in_child() { forks.store(0); }  // another thread may have been about to fork too

// Handlers of a later call come first before a fork: visitors may need the memory cache's lock, so that is held later.
bool wait_at_forks() {
  memory_stats();
  pthread_atfork(wait_for_visitors, let_visitors_in, start_in_child);
  return true;
}

}  // namespace

Visit::Visit() {
  static const bool waits [[maybe_unused]] = wait_at_forks();
  if (depth++ > 0) return;
  for (;;) {
    visitors.fetch_add(1);
    if (forks.load() == 0) return;
    visitors.fetch_sub(1);
    while (forks.load() != 0) std::this_thread::yield();
  }
}

Visit::~Visit() {
  if (--depth == 0) visitors.fetch_sub(1);
}

}  // namespace paddock::table
