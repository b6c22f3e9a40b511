// What a library of operators hands over: one entry an operator. Plain data, so that opening the library runs nothing.
#pragma once

namespace paddock {

struct OpDef;

struct OperatorEntry {
  const char *name, *signature;
  void (*define)(OpDef&);
  const OperatorEntry* next;
};

}  // namespace paddock
