// Finds, checks and loads the kernel library of an instruction set.
#include "op/isa.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "image/rows.h"
#include "op/op.h"
#include "table/row_rules.h"

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

std::filesystem::path library_path(const std::string& isa) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&library_path), &info)) fail(ErrorKind::kInternal, "cannot locate libpaddock");
  return std::filesystem::path(info.dli_fname).parent_path() / ("libpaddock_cpu_" + isa + ".so");
}

}  // namespace

std::vector<std::string> supported_isas() {
  std::vector<std::string> found;
  for (const char* isa : {"baseline", "avx2", "avx512"})
    if (cpu_has(isa) && std::filesystem::exists(library_path(isa))) found.emplace_back(isa);
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
  void* library = dlopen(library_path(isa).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(ErrorKind::kInternal, "use_isa: cannot load ", library_path(isa).string(), ": ", dlerror());
  using TableFn = const std::vector<KernelEntry>& (*)();
  auto kernels = reinterpret_cast<TableFn>(dlsym(library, "paddock_kernel_table"));
  if (!kernels) fail(ErrorKind::kInternal, "use_isa: ", library_path(isa).string(), " holds no kernels");
  register_kernels(kernels());
  using RulesFn = const table::RowRules& (*)();
  auto rules = reinterpret_cast<RulesFn>(dlsym(library, "paddock_row_rules"));
  if (!rules) fail(ErrorKind::kInternal, "use_isa: ", library_path(isa).string(), " holds no rules of tables");
  using RowsFn = const image::PictureRows& (*)();
  auto rows = reinterpret_cast<RowsFn>(dlsym(library, "paddock_picture_rows"));
  if (!rows) fail(ErrorKind::kInternal, "use_isa: ", library_path(isa).string(), " holds no rows of pictures");
  table::set_row_rules(rules());
  image::set_picture_rows(rows());
  active = isa;
}

}  // namespace paddock
