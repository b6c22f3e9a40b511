// What a table is made of and how its rows come and go. Plain numbers; Python checks them and gives them names.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "table/row_rules.h"

namespace paddock::table {

enum class InitKind : uint8_t { kZeros, kUniform, kNormal };

// The initial values of `columns` columns of a row.
struct InitPart {
  int64_t columns = 0;
  InitKind kind = InitKind::kZeros;
  float scale = 0;  // half the width of the range, or the standard deviation
};

struct RuleConfig {
  RuleKind kind = RuleKind::kSgd;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // Adam
  double l2 = 0;                                  // weight decay added to the gradient
  double l1 = 0, beta = 1;                        // FTRL
  double initial = 0;                             // of Adagrad's sum of squares
};

enum class AdmissionKind : uint8_t { kAll, kCount, kScore, kProbability };

// When a key gets a row: at once, after `threshold` occurrences, from a score on, or by chance at each occurrence.
struct AdmissionConfig {
  AdmissionKind kind = AdmissionKind::kAll;
  double threshold = 0;  // occurrences, score, or probability
};

// How rows age: at the end of a pass shows and clicks are multiplied by `decay`, and rows go whose score is below
// `least_score` or that no update touched for more than `most_unseen` passes.
struct EvictionConfig {
  double decay = 1, least_score = 0;
  int64_t most_unseen = -1;  // -1: never
};

enum class FullPolicy : uint8_t { kError, kEvict };

struct TableConfig {
  std::string name;
  int64_t dim = 1;
  RuleConfig rule;
  std::vector<InitPart> init;
  AdmissionConfig admission;
  EvictionConfig eviction;
  double show_weight = 0.1, click_weight = 1;  // score = (show - click) * show_weight + click * click_weight
  int64_t most_rows = -1;                      // -1: no limit
  FullPolicy when_full = FullPolicy::kError;
  uint64_t seed = 0;
  int bucket_bits = 8;
};

}  // namespace paddock::table
