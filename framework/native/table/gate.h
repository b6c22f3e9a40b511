// Lets look-ups read a table without the buckets' locks while nothing changes it.
#pragma once
#include <atomic>
#include <thread>

namespace paddock::table {

class ReadGate {
 public:
  // Held by a thread that changes rows or indexes, each bucket's lock beside it. Waits for the readers inside; those
  // that come later take locks.
  class Change {
   public:
    explicit Change(ReadGate& gate) : gate_(gate) {
      gate_.changes_.fetch_add(1);
      while (gate_.readers_.load() != 0) std::this_thread::yield();
    }
    ~Change() { gate_.changes_.fetch_sub(1); }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    ReadGate& gate_;
  };

  // Held by a thread while it reads; short, since changes wait for it. Not to be held around another one.
  class Read {
   public:
    Read(ReadGate& gate, bool wanted) : gate_(gate) {
      if (!wanted) return;
      gate_.readers_.fetch_add(1);
      inside_ = gate_.changes_.load() == 0;
      if (!inside_) gate_.readers_.fetch_sub(1);
    }
    ~Read() {
      if (inside_) gate_.readers_.fetch_sub(1);
    }
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

    // Whether nothing changes until this ends. If not, read with the bucket's lock.
    bool alone() const { return inside_; }

   private:
    ReadGate& gate_;
    bool inside_ = false;
  };

 private:
  alignas(64) std::atomic<int> readers_{0};
  alignas(64) std::atomic<int> changes_{0};
};

}  // namespace paddock::table
