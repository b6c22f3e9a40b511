// Packing rows and index for a file, and looking up in mapped ones.
#include "table/snapshot.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "table/hash.h"

namespace paddock::table {
namespace {

constexpr int64_t kWindow = 64, kGrain = 1024, kLine = 64;
constexpr int64_t kInt8Head = 8;  // least value, step
constexpr float kCodes = 255;
using Entry = SnapshotFile::Entry;

void pack_int8(const float* value, char* row, int64_t dim) {
  const auto [low, high] = std::minmax_element(value, value + dim);
  for (int64_t j = 0; j < dim; ++j)
    if (!std::isfinite(value[j]))
      fail(ErrorKind::kState, "snapshot: a row holds ", value[j], ", which int8 rows cannot; use float16 or float32");
  const float least = *low, step = (*high - *low) / kCodes;
  if (!std::isfinite(step)) fail(ErrorKind::kState, "snapshot: a row's range is too large for int8 rows; use float32");
  std::memcpy(row, &least, 4);
  std::memcpy(row + 4, &step, 4);
  auto* codes = reinterpret_cast<uint8_t*>(row + kInt8Head);
  for (int64_t j = 0; j < dim; ++j)
    codes[j] = step > 0 ? static_cast<uint8_t>(std::clamp(std::round((value[j] - least) / step), 0.0f, kCodes)) : 0;
}

void place(std::vector<Entry>& slots, uint64_t key, uint32_t row) {
  const size_t mask = slots.size() - 1;
  size_t i = mix(key) & mask;
  while (slots[i].row != SnapshotFile::kEmpty) i = (i + 1) & mask;
  slots[i] = {key, row, 0};
}

// What this thread reads from. Initial-exec: a handler may not allocate, as the first use of other variables would.
__attribute__((tls_model("initial-exec"))) thread_local const Snapshot* reading = nullptr;

struct Reading {
  explicit Reading(const Snapshot* snapshot) { reading = snapshot; }
  ~Reading() { reading = nullptr; }
};

struct sigaction earlier;  // of SIGBUS, for faults that are not ours

// A page of a file that is not there any more: its reader goes on with zeros. A fault of others is theirs, once more.
void on_bus_error(int number, siginfo_t* info, void*) {
  const int error = errno;
  const bool ours = info->si_code > 0 && reading && reading->lose(info->si_addr);
  if (!ours) sigaction(SIGBUS, &earlier, nullptr);
  if (!ours && info->si_code <= 0) raise(number);
  errno = error;
}

bool handle_bus_errors() {
  struct sigaction handler{};
  handler.sa_sigaction = on_bus_error;
  handler.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return sigaction(SIGBUS, &handler, &earlier) == 0;
}

}  // namespace

int64_t row_bytes(RowType type, int64_t dim) {
  if (type == RowType::kFloat32) return dim * 4;
  if (type == RowType::kFloat16) return dim * 2;
  return (kInt8Head + dim + 3) / 4 * 4;
}

Tensor pack_rows(const Tensor& values, RowType type) {
  const int64_t n = values.shape()[0], dim = values.shape()[1], bytes = row_bytes(type, dim);
  Tensor packed(TensorType{{n, bytes}, DType::kU8});
  const float* from = values.data<float>();
  char* to = packed.data<char>();
  if (type == RowType::kInt8) std::memset(to, 0, static_cast<size_t>(n * bytes));
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* value = from + i * dim;
      char* row = to + i * bytes;
      if (type == RowType::kFloat32) {
        std::memcpy(row, value, static_cast<size_t>(bytes));
      } else if (type == RowType::kFloat16) {
        for (int64_t j = 0; j < dim; ++j) {
          const Float16 half(value[j]);
          std::memcpy(row + 2 * j, &half, 2);
        }
      } else {
        pack_int8(value, row, dim);
      }
    }
  });
  return packed;
}

Tensor pack_index(const int64_t* keys, int64_t count, const int64_t* removed, int64_t removed_count) {
  if (count >= SnapshotFile::kRemoved)
    fail(ErrorKind::kState, "snapshot: ", count, " rows are more than a file can hold");
  size_t slots = 1;
  while (static_cast<uint64_t>(count + removed_count) * 10 > slots * 7) slots *= 2;
  std::vector<Entry> entries(slots, Entry{0, SnapshotFile::kEmpty, 0});
  for (int64_t i = 0; i < count; ++i) place(entries, static_cast<uint64_t>(keys[i]), static_cast<uint32_t>(i));
  for (int64_t i = 0; i < removed_count; ++i) place(entries, static_cast<uint64_t>(removed[i]), SnapshotFile::kRemoved);
  Tensor packed(TensorType{{static_cast<int64_t>(slots * sizeof(Entry))}, DType::kU8});
  std::memcpy(packed.raw(), entries.data(), slots * sizeof(Entry));
  return packed;
}

SnapshotFile::SnapshotFile(const std::string& path, int64_t index_at, int64_t slots, int64_t rows_at, int64_t rows,
                           int64_t dim, RowType type)
    : path_(path),
      slots_(static_cast<uint64_t>(slots)),
      row_count_(rows),
      dim_(dim),
      row_bytes_(table::row_bytes(type, dim)),
      type_(type) {
  [[maybe_unused]] static const bool handled = handle_bus_errors();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info{};
  if (fd < 0 || fstat(fd, &info) != 0) {
    if (fd >= 0) close(fd);
    fail(ErrorKind::kState, path, ": cannot be opened: ", std::strerror(errno));
  }
  bytes_ = static_cast<size_t>(info.st_size);
  const auto fits = [&](int64_t at, int64_t count, int64_t size) {
    return at >= 0 && count >= 0 && size > 0 && at <= info.st_size && count <= (info.st_size - at) / size;
  };
  const bool good = slots > 0 && (slots & (slots - 1)) == 0 && index_at % 16 == 0 && rows_at % 16 == 0 &&
                    fits(index_at, slots, sizeof(Entry)) && fits(rows_at, rows, row_bytes_);
  if (good) mapped_ = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (!good) fail(ErrorKind::kState, path, ": its index or rows lie outside of the file; it is cut or damaged");
  if (mapped_ == MAP_FAILED) fail(ErrorKind::kState, path, ": cannot be mapped: ", std::strerror(errno));
  madvise(mapped_, bytes_, MADV_RANDOM);
  index_ = reinterpret_cast<const Entry*>(static_cast<const char*>(mapped_) + index_at);
  rows_ = static_cast<const char*>(mapped_) + rows_at;
}

SnapshotFile::~SnapshotFile() {
  if (mapped_) munmap(mapped_, bytes_);
}

bool SnapshotFile::lose(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address), begin = reinterpret_cast<uintptr_t>(mapped_);
  if (at < begin || at - begin >= bytes_) return false;
  lost_.store(true, std::memory_order_relaxed);
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  return mmap(mapped_, bytes_, PROT_READ, kind, -1, 0) != MAP_FAILED;
}

// Ends after all slots also where a damaged index has no empty one. A row's number is read once: a file that is written
// in its place may change it.
uint32_t SnapshotFile::find(uint64_t key, uint64_t hash) const {
  for (uint64_t probe = 0; probe < slots_ && !lost(); ++probe) {
    const Entry& e = index_[(hash + probe) & (slots_ - 1)];
    const uint32_t row = __atomic_load_n(&e.row, __ATOMIC_RELAXED);
    if (row == kEmpty) return kEmpty;
    if (e.key == key) return row == kRemoved || row < static_cast<uint64_t>(row_count_) ? row : kEmpty;
  }
  return kEmpty;
}

void SnapshotFile::read(uint32_t number, float* out) const {
  const char* from = row(number);
  if (type_ == RowType::kFloat32) {
    std::memcpy(out, from, static_cast<size_t>(row_bytes_));
  } else if (type_ == RowType::kFloat16) {
    for (int64_t j = 0; j < dim_; ++j) {
      Float16 half;
      std::memcpy(&half, from + 2 * j, 2);
      out[j] = static_cast<float>(half);
    }
  } else {
    float least, step;
    std::memcpy(&least, from, 4);
    std::memcpy(&step, from + 4, 4);
    const auto* codes = reinterpret_cast<const uint8_t*>(from + kInt8Head);
    for (int64_t j = 0; j < dim_; ++j) out[j] = least + step * static_cast<float>(codes[j]);
  }
}

int64_t Snapshot::lookup(const int64_t* keys, int64_t count, float* out) const {
  std::atomic<int64_t> missed{0};
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    const Reading now(this);
    int64_t here = 0;
    for (int64_t i = begin; i < end; i += kWindow)
      here += lookup_window(keys + i, std::min(kWindow, end - i), out + i * dim());
    missed.fetch_add(here, std::memory_order_relaxed);
  });
  for (const auto& file : files_)
    if (file->lost())
      fail(ErrorKind::kState, file->path(),
           ": the file was cut, or its disk failed, while its rows were served; publish the rows again (files are "
           "replaced, never written in their place)");
  return missed.load();
}

bool Snapshot::lost() const {
  return std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file->lost(); });
}

bool Snapshot::lose(const void* address) const {
  return std::any_of(files_.begin(), files_.end(), [&](const auto& file) { return file->lose(address); });
}

int64_t Snapshot::lookup_window(const int64_t* keys, int64_t count, float* out) const {
  struct Place {
    const SnapshotFile* file;
    uint32_t row;
  };
  uint64_t hashes[kWindow];
  Place places[kWindow];
  for (int64_t i = 0; i < count; ++i) {
    hashes[i] = mix(static_cast<uint64_t>(keys[i]));
    for (const auto& file : files_) file->prefetch(hashes[i]);
  }
  for (int64_t i = 0; i < count; ++i) {
    places[i] = {nullptr, SnapshotFile::kEmpty};
    for (const auto& file : files_) {
      const uint32_t row = file->find(static_cast<uint64_t>(keys[i]), hashes[i]);
      if (row == SnapshotFile::kEmpty) continue;
      if (row != SnapshotFile::kRemoved) places[i] = {file.get(), row};
      break;
    }
    if (!places[i].file) continue;
    const char* row = places[i].file->row(places[i].row);
    for (int64_t at = 0; at < places[i].file->row_bytes(); at += kLine) __builtin_prefetch(row + at);
  }
  int64_t missed = 0;
  for (int64_t i = 0; i < count; ++i) {
    float* to = out + i * dim();
    if (places[i].file) {
      places[i].file->read(places[i].row, to);
    } else {
      std::fill(to, to + dim(), 0.0f);
      ++missed;
    }
  }
  return missed;
}

}  // namespace paddock::table
