// paddock.h over Predictor: arguments are checked, exceptions become statuses.
#include <limits>
#include <mutex>
#include <new>

#include "core/parallel.h"
#include "op/isa.h"
#include "predictor/guarded.h"

using paddock::DType;
using paddock::ErrorKind;
using paddock::Tensor;
using paddock::TensorType;
using paddock::c_api::bad_argument;
using paddock::c_api::described;
using paddock::c_api::expect;
using paddock::c_api::fill;
using paddock::c_api::guarded;

namespace {

namespace predictor = paddock::predictor;

static_assert(PADDOCK_BOOL == static_cast<int>(DType::kBool) && PADDOCK_BFLOAT16 == static_cast<int>(DType::kBF16) &&
              PADDOCK_INT64 == static_cast<int>(DType::kI64) && PADDOCK_MAX_RANK == paddock::kMaxRank);

// Kernels of the best instruction set, where nobody has chosen another. In a Python process that has loaded the core
// already, those that it uses.
void expect_kernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!paddock::active_isa().empty()) return;
    const auto sets = paddock::supported_isas();
    if (sets.empty())
      paddock::fail(ErrorKind::kNotSupported,
                    "no kernels are there; the files libpaddock_cpu_*.so must lie beside libpaddock.so");
    paddock::use_isa(sets.back());
  });
}

int64_t* limit_of(predictor::Options& o, const std::string& name) {
  auto& l = o.limits;
  const std::pair<const char*, int64_t*> all[] = {
      {"text_bytes", &l.text_bytes},
      {"weight_bytes", &l.weight_bytes},
      {"elements", &l.elements},
      {"element_growth", &l.element_growth},
      {"plan_elements", &l.plan_elements},
      {"nodes", &l.nodes},
      {"levels", &l.levels},
      {"loop_steps", &l.loop_steps},
      {"pixels", &l.pixels},
  };
  for (const auto& [known, value] : all)
    if (name == known) return value;
  return nullptr;
}

void set_option(predictor::Options& options, const std::string& name, int64_t value) {
  if (name == "map_weights") {
    if (value != 0 && value != 1) bad_argument("option map_weights is ", value, "; it takes 0 or 1");
    options.map_weights = value == 1;
  } else if (name == "memory_bytes") {
    if (value < 0) bad_argument("option memory_bytes is ", value, "; it takes 0 or more");
    options.memory_bytes = value;
  } else if (int64_t* limit = limit_of(options, name)) {
    if (value < 1) bad_argument("option ", name, " is ", value, "; it takes a number above 0");
    *limit = value;
  } else {
    bad_argument("there is no option '", name, "'; paddock.h lists them");
  }
}

paddock::sealing::KeySource& key_option(paddock_options* options, const char* name) {
  expect(name, "name");
  auto& keys = options->values.keys;
  if (name == std::string_view("decrypt")) return keys.decrypt;
  if (name == std::string_view("verify")) return keys.verify;
  bad_argument("there is no key '", name, "'; there are decrypt and verify");
}

void describe(const paddock_predictor* p, const std::vector<predictor::NamedType>& list, int32_t index,
              paddock_info* info) {
  if (index < 0 || static_cast<size_t>(index) >= list.size())
    bad_argument("there is no number ", index, "; there are ", list.size());
  const auto& named = list[static_cast<size_t>(index)];
  auto found = described<paddock_info>(named.type);
  found.fixed = p->self->fixed_shapes();
  found.name = named.name.c_str();
  fill(info, found, "info");
}

}  // namespace

extern "C" {

int32_t paddock_interface_version(void) { return PADDOCK_INTERFACE_MAJOR * 1000 + PADDOCK_INTERFACE_MINOR; }

const char* paddock_version(void) { return PADDOCK_VERSION_TEXT; }

const char* paddock_last_error(void) { return paddock::c_api::last_error(); }

const char* paddock_type_name(int32_t type) {
  return type < 0 || type >= paddock::kDTypeCount ? nullptr : paddock::dtype_name(static_cast<DType>(type));
}

size_t paddock_type_size(int32_t type) {
  if (type < 0 || type >= paddock::kDTypeCount) return 0;
  return static_cast<size_t>(paddock::dtype_size(static_cast<DType>(type)));
}

paddock_status paddock_set_threads(int32_t count) {
  return guarded([&] { paddock::set_num_threads(count); });
}

int32_t paddock_threads(void) { return paddock::num_threads(); }

paddock_status paddock_set_instruction_set(const char* name) {
  return guarded([&] {
    expect(name, "name");
    expect_kernels();
    paddock::use_isa(name);
  });
}

const char* paddock_instruction_set(void) {
  const char* name = nullptr;
  guarded([&] {
    expect_kernels();
    const std::string active = paddock::active_isa();
    for (const char* known : {"baseline", "avx2", "avx512"})
      if (active == known) name = known;
  });
  return name;
}

paddock_status paddock_options_new(paddock_options** options) {
  return guarded([&] {
    expect(options, "options");
    *options = new paddock_options;
  });
}

paddock_status paddock_options_set(paddock_options* options, const char* name, int64_t value) {
  return guarded([&] {
    expect(options, "options");
    expect(name, "name");
    set_option(options->values, name, value);
  });
}

paddock_status paddock_options_set_text(paddock_options* options, const char* name, const char* text) {
  return guarded([&] {
    expect(options, "options");
    expect(text, "text");
    key_option(options, name) = paddock::sealing::key_of_text(text);
  });
}

paddock_status paddock_options_set_key(paddock_options* options, const char* name, const void* key, size_t bytes) {
  return guarded([&] {
    expect(options, "options");
    expect(key, "key");
    key_option(options, name) = paddock::sealing::key_of_bytes(key, bytes);
  });
}

paddock_status paddock_options_set_key_function(paddock_options* options, const char* name,
                                                paddock_key_function function, void* context) {
  return guarded([&] {
    expect(options, "options");
    if (!function) bad_argument("function is a null pointer");
    key_option(options, name) = paddock::sealing::key_of_function(function, context);
  });
}

void paddock_options_free(paddock_options* options) { delete options; }

paddock_status paddock_load(const char* folder, const paddock_options* options, paddock_predictor** made) {
  return guarded([&] {
    expect(made, "predictor");
    *made = nullptr;
    expect(folder, "folder");
    expect_kernels();
    auto p = std::make_unique<paddock_predictor>();
    p->self = predictor::Predictor::load(folder, options ? options->values : predictor::Options{});
    *made = p.release();
  });
}

paddock_status paddock_clone(paddock_predictor* p, paddock_predictor** clone) {
  return guarded([&] {
    expect(clone, "clone");
    *clone = nullptr;
    expect(p, "predictor");
    auto other = std::make_unique<paddock_predictor>();
    other->self = p->self->clone();
    other->texts = p->texts;
    other->rows = p->rows;
    *clone = other.release();
  });
}

void paddock_free(paddock_predictor* p) { delete p; }

int32_t paddock_input_count(const paddock_predictor* p) {
  return p ? static_cast<int32_t>(p->self->inputs().size()) : 0;
}

int32_t paddock_output_count(const paddock_predictor* p) {
  return p ? static_cast<int32_t>(p->self->outputs().size()) : 0;
}

paddock_status paddock_input_info(const paddock_predictor* p, int32_t index, paddock_info* info) {
  return guarded([&] {
    expect(p, "predictor");
    describe(p, p->self->inputs(), index, info);
  });
}

paddock_status paddock_output_info(const paddock_predictor* p, int32_t index, paddock_info* info) {
  return guarded([&] {
    expect(p, "predictor");
    describe(p, p->self->outputs(), index, info);
  });
}

const char* paddock_signer(const paddock_predictor* p) {
  return p && !p->self->signer().empty() ? p->self->signer().c_str() : nullptr;
}

const char* paddock_metadata(const paddock_predictor* p) { return p ? p->self->extra().c_str() : nullptr; }

paddock_status paddock_metadata_at(paddock_predictor* p, const char* pointer, const char** text) {
  return guarded([&] {
    expect(p, "predictor");
    expect(pointer, "pointer");
    expect(text, "text");
    *text = p->self->extra_at(pointer).c_str();
  });
}

paddock_status paddock_run(paddock_predictor* p, const paddock_tensor* inputs, int32_t count) {
  return guarded([&] {
    expect(p, "predictor");
    if (count < 0) bad_argument("count is ", count);
    if (count) expect(inputs, "inputs");
    std::vector<Tensor> tensors;
    tensors.reserve(static_cast<size_t>(count));
    const uint32_t step = count ? inputs->struct_size : 0;  // of the header that the caller was compiled with
    if (count && step < sizeof(paddock_tensor)) bad_argument("inputs[0].struct_size is ", step, "; set it to sizeof");
    const auto* at = reinterpret_cast<const char*>(inputs);
    for (int32_t i = 0; i < count; ++i, at += step) {
      const auto& t = *reinterpret_cast<const paddock_tensor*>(at);
      if (t.struct_size != step) bad_argument("inputs[", i, "].struct_size is ", t.struct_size, "; set it to sizeof");
      tensors.push_back(paddock::c_api::tensor_of(t, "input", i));
    }
    p->self->run(std::move(tensors));
  });
}

paddock_status paddock_output(paddock_predictor* p, int32_t index, paddock_tensor* output) {
  return guarded([&] {
    expect(p, "predictor");
    paddock::c_api::fill_tensor(output, p->self->result(index), "output");
  });
}

paddock_status paddock_release_outputs(paddock_predictor* p) {
  return guarded([&] {
    expect(p, "predictor");
    p->self->release_results();
  });
}

paddock_status paddock_memory_report(paddock_predictor* p, const char** json) {
  return guarded([&] {
    expect(p, "predictor");
    expect(json, "json");
    *json = p->self->memory_report().c_str();
  });
}

paddock_status paddock_set_profiling(paddock_predictor* p, int32_t on) {
  return guarded([&] {
    expect(p, "predictor");
    p->self->set_profiling(on != 0);
  });
}

paddock_status paddock_profile(paddock_predictor* p, const char** json) {
  return guarded([&] {
    expect(p, "predictor");
    expect(json, "json");
    *json = p->self->profile().c_str();
  });
}

}  // extern "C"
