// Finding or making a kept block.
#include "op/prepared.h"

#include "op/isa.h"
#include "op/record.h"

namespace paddock {

std::shared_ptr<Storage> Prepared::block(std::string_view form, int64_t bytes, FunctionRef<void(void*)> fill) const {
  const std::string isa = active_isa();
  if (kept_) note_implementation("prepared weights");
  if (kept_)
    for (const auto& b : kept_->blocks)
      if (b.input == input_ && b.form == form && b.isa == isa && b.type == type_) return b.bytes;
  auto made = std::make_shared<Storage>(bytes, kept_ ? Storage::For::kTensor : Storage::For::kScratch);
  fill(made->data());
  if (kept_) kept_->blocks.push_back({isa, std::string(form), input_, type_, made});
  return made;
}

}  // namespace paddock
