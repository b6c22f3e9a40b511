// Finds, checks and loads the kernel library of an instruction set; of a static libpaddock, which holds them, the
// kernels of one.
#include "op/isa.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "image/rows.h"
#include "op/op.h"
#include "table/row_rules.h"

#if defined(PADDOCK_STATIC_SETS)  // PADDOCK_SET(baseline) PADDOCK_SET(avx2) ...
extern "C" {
#define PADDOCK_SET(set)                                                 \
  const std::vector<paddock::KernelEntry>& paddock_kernel_table_##set(); \
  const paddock::table::RowRules& paddock_row_rules_##set();             \
  const paddock::image::PictureRows& paddock_picture_rows_##set();
PADDOCK_STATIC_SETS
#undef PADDOCK_SET
}
#endif

namespace paddock {
namespace {

std::string active;

bool cpu_has(const std::string& isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == "avx2") return avx2;
  if (isa == "avx512")
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return isa == "baseline";
}

// What a set of kernels gives.
struct Entries {
  const std::vector<KernelEntry>& (*kernels)();
  const table::RowRules& (*rules)();
  const image::PictureRows& (*rows)();
};

#if defined(PADDOCK_STATIC_SETS)

std::optional<Entries> linked(const std::string& isa) {
#define PADDOCK_SET(set) \
  if (isa == #set) return Entries{paddock_kernel_table_##set, paddock_row_rules_##set, paddock_picture_rows_##set};
  PADDOCK_STATIC_SETS
#undef PADDOCK_SET
  return std::nullopt;
}

bool is_built(const std::string& isa) { return linked(isa).has_value(); }
Entries entries_of(const std::string& isa) { return linked(isa).value(); }

#else

std::filesystem::path library_path(const std::string& isa) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&library_path), &info)) fail(ErrorKind::kInternal, "cannot locate libpaddock");
  return std::filesystem::path(info.dli_fname).parent_path() / ("libpaddock_cpu_" + isa + ".so");
}

bool is_built(const std::string& isa) { return std::filesystem::exists(library_path(isa)); }

template <class Function>
Function entry(void* library, const std::string& isa, const char* name, const char* what) {
  void* found = dlsym(library, name);
  if (!found) fail(ErrorKind::kInternal, "use_isa: ", library_path(isa).string(), " holds no ", what);
  return reinterpret_cast<Function>(found);
}

Entries entries_of(const std::string& isa) {
  void* library = dlopen(library_path(isa).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(ErrorKind::kInternal, "use_isa: cannot load ", library_path(isa).string(), ": ", dlerror());
  return {entry<decltype(Entries::kernels)>(library, isa, "paddock_kernel_table", "kernels"),
          entry<decltype(Entries::rules)>(library, isa, "paddock_row_rules", "rules of tables"),
          entry<decltype(Entries::rows)>(library, isa, "paddock_picture_rows", "rows of pictures")};
}

#endif

}  // namespace

std::vector<std::string> supported_isas() {
  std::vector<std::string> found;
  for (const char* isa : {"baseline", "avx2", "avx512"})
    if (cpu_has(isa) && is_built(isa)) found.emplace_back(isa);
  return found;
}

std::string active_isa() { return active; }

void use_isa(const std::string& isa) {
  auto supported = supported_isas();
  if (std::find(supported.begin(), supported.end(), isa) == supported.end()) {
    std::string list;
    for (const auto& s : supported) list += (list.empty() ? "" : ", ") + s;
    fail(ErrorKind::kAttribute, "use_isa: '", isa, "' is not available here; this machine has ", list);
  }
  const Entries found = entries_of(isa);
  register_kernels(found.kernels());
  table::set_row_rules(found.rules());
  image::set_picture_rows(found.rows());
  active = isa;
}

}  // namespace paddock
