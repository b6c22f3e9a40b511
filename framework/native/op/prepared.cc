// Finding or making a kept block.
#include "op/prepared.h"

#include "op/isa.h"
#include "op/record.h"

namespace paddock {

std::shared_ptr<Storage> Prepared::block(std::string_view form, int64_t bytes, FunctionRef<void(void*)> fill) const {
  const std::string isa = active_isa();
  if (!kept_) {
    auto made = std::make_shared<Storage>(bytes, Storage::For::kScratch);
    fill(made->data());
    return made;
  }
  note_implementation("prepared weights");
  std::lock_guard lock(kept_->mutex);
  for (const auto& b : kept_->blocks)
    if (b.input == input_ && b.form == form && b.isa == isa && b.type == type_) return b.bytes;
  auto made = std::make_shared<Storage>(bytes);
  fill(made->data());
  kept_->blocks.push_back({isa, std::string(form), input_, type_, made});
  return made;
}

}  // namespace paddock
