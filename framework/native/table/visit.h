// Work on tables' rows, which fork() waits for: a child then finds every table whole and its locks free.
#pragma once
#include "core/api.h"

namespace paddock::table {

// Stands at the head of each public method of a table; methods may call each other. What it is around takes no lock
// of Python's, which the thread that forks may hold.
class PADDOCK_API Visit {
 public:
  Visit();
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
};

}  // namespace paddock::table
