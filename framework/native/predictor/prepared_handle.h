// What paddock_prepare, paddock_prepare_texts and paddock_prepare_rows give.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "predictor/guarded.h"
#include "predictor/pictures/prepared.h"
#include "predictor/rows/prepared.h"
#include "predictor/texts/sequences.h"

struct paddock_prepared {
  std::variant<paddock::pictures::PreparedPictures, paddock::texts::PreparedTexts, paddock::rows::PreparedRows> self;
  std::vector<std::string> inputs;  // of the predictor, by name

  const paddock::pictures::PreparedPictures& pictures() const {
    const auto* found = std::get_if<paddock::pictures::PreparedPictures>(&self);
    if (!found) paddock::c_api::bad_argument("these are no pictures");
    return *found;
  }
};

namespace paddock::c_api {

inline std::vector<std::string> input_names(const paddock_predictor* p) {
  std::vector<std::string> names;
  for (const auto& input : p->self->inputs()) names.push_back(input.name);
  return names;
}

// Structs of the caller one after the other, of the header that it was compiled with; each has its size first.
template <class T, class F>
void each_given(const T* first, int32_t count, const char* what, F&& taken) {
  expect(first, what);
  if (count < 1) bad_argument("count is ", count, "; there must be one");
  const uint32_t step = first->struct_size;
  if (step < sizeof(T)) bad_argument(what, "[0].struct_size is ", step, "; set it to sizeof");
  const auto* at = reinterpret_cast<const char*>(first);
  for (int32_t i = 0; i < count; ++i, at += step) {
    const auto& one = *reinterpret_cast<const T*>(at);
    if (one.struct_size != step) bad_argument(what, "[", i, "].struct_size is ", one.struct_size, "; set it to sizeof");
    taken(one);
  }
}

}  // namespace paddock::c_api
