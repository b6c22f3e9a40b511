#include "core/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

namespace paddock {
namespace {

int affinity_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

int to_cores(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;  // "max", -1, or no such file
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, 1e6));
}

double number(const std::string& path) {
  double value = 0;
  std::ifstream(path) >> value;
  return value;
}

int quota_of_v2(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder + "/cpu.max") >> quota >> period;
  return to_cores(quota, period);
}

int quota_of_v1(const std::string& folder) {
  return to_cores(number(folder + "/cpu.cfs_quota_us"), number(folder + "/cpu.cfs_period_us"));
}

// The least of a group's own quota and those above it. In a container the path may be the host's, which is not mounted:
// then only the mount's root answers.
template <typename QuotaOf>
int least_quota(const std::string& mount, std::string path, QuotaOf quota_of) {
  int least = 0;
  for (;;) {
    if (path == "/") path.clear();
    if (int found = quota_of(mount + path); found && (!least || found < least)) least = found;
    if (path.empty()) return least;
    path.resize(path.rfind('/'));
  }
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "cpu") return true;
  return false;
}

}  // namespace

int quota_cores(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  const std::string mounts = root + "/sys/fs/cgroup";
  int least = 0;
  for (std::string line; std::getline(groups, line);) {  // number:controllers:/path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second, 2, ":/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    int found = 0;
    if (controllers.empty())
      found = least_quota(mounts, path, quota_of_v2);
    else if (lists_cpu(controllers))
      found = least_quota(mounts + "/cpu", path, quota_of_v1);
    if (found && (!least || found < least)) least = found;
  }
  return least;
}

int available_cores(const std::string& root) {
  const int cores = std::max(1, affinity_cores()), quota = quota_cores(root);
  return quota ? std::min(cores, quota) : cores;
}

int64_t last_cache_bytes(const std::string& root) {
  int64_t size = 0;
  char unit = 0;
  std::ifstream(root + "/sys/devices/system/cpu/cpu0/cache/index3/size") >> size >> unit;
  return unit == 'K' && size > 0 && size < int64_t{1} << 40 ? size << 10 : 0;
}

}  // namespace paddock
