// What a library of operators from outside of the tree includes: the blocks of its operators, their kernels, and a
// note about the headers it was built against, which is read before any of its code runs. See
// docs/howto/custom_operators.md.
#pragma once
#include "core/parallel.h"
#include "op/choice.h"
#include "op/context.h"
#include "paddock/abi.h"
#include "paddock/entry.h"

namespace paddock::detail {

// Hidden, so that each library has a list of its own.
__attribute__((visibility("hidden"))) inline const OperatorEntry*& operator_entries() {
  static const OperatorEntry* first = nullptr;
  return first;
}

struct AbiNote {
  uint32_t name_bytes = sizeof(name), description_bytes = sizeof(description), type = kAbiNoteType;
  char name[8] = "Paddock";
  AbiDescription description;
};
[[gnu::used, gnu::section(".note.paddock"), gnu::aligned(4)]] static constexpr AbiNote abi_note;

}  // namespace paddock::detail

extern "C" [[gnu::used, gnu::visibility("default")]] inline const paddock::OperatorEntry* paddock_operator_entries() {
  return paddock::detail::operator_entries();
}

// PADDOCK_OPERATOR(scale, "x -> y") { op.doc("...").infer(...).cpu(...); }
#define PADDOCK_OPERATOR(name, signature)                                                                              \
  static void define_##name(::paddock::OpDef& op);                                                                     \
  static ::paddock::OperatorEntry entry_of_##name{#name, signature, &define_##name, nullptr};                          \
  [[maybe_unused]] static const bool linked_##name = (entry_of_##name.next = ::paddock::detail::operator_entries(),    \
                                                      ::paddock::detail::operator_entries() = &entry_of_##name, true); \
  static void define_##name(::paddock::OpDef& op)
