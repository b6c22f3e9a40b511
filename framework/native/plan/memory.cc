// Greedy-by-size offset assignment (Pisarchyk & Lee, "Efficient memory management for deep neural net
// inference", 2020).
#include "plan/memory.h"

#include <algorithm>
#include <numeric>

#include "core/storage.h"

namespace paddock {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The offset of the smallest gap of at least `need` bytes below and between `busy`, which is sorted by
// offset.
int64_t best_gap(const std::vector<const Block*>& busy, int64_t need) {
  int64_t end = 0, best = -1, best_size = INT64_MAX;
  for (const Block* b : busy) {
    int64_t gap = b->offset - end;
    if (gap >= need && gap < best_size) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, b->offset + aligned(b->bytes));
  }
  return best >= 0 ? best : end;
}

}  // namespace

int64_t place_blocks(std::vector<Block>& blocks) {
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<const Block*> placed, busy;  // `placed` stays sorted by offset
  placed.reserve(blocks.size());
  int64_t arena = 0;
  for (int i : order) {
    Block& block = blocks[i];
    busy.clear();
    for (const Block* p : placed)
      if (p->first <= block.last && block.first <= p->last) busy.push_back(p);
    block.offset = best_gap(busy, aligned(block.bytes));
    arena = std::max(arena, block.offset + aligned(block.bytes));
    auto at = std::upper_bound(placed.begin(), placed.end(), block.offset,
                               [](int64_t offset, const Block* p) { return offset < p->offset; });
    placed.insert(at, &block);
  }
  return arena;
}

int64_t lower_bound_bytes(const std::vector<Block>& blocks) {
  int steps = 0;
  for (const Block& b : blocks) steps = std::max(steps, b.last + 2);
  std::vector<int64_t> change(steps, 0);
  for (const Block& b : blocks) {
    change[b.first] += aligned(b.bytes);
    change[b.last + 1] -= aligned(b.bytes);
  }
  int64_t now = 0, most = 0;
  for (int64_t c : change) most = std::max(most, now += c);
  return most;
}

}  // namespace paddock
