// LogSchema: what is read from a row of a click log, compiled to column numbers. Letters: F sparse features, D dense
// ones, L labels.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/api.h"
#include "reader/written.h"

namespace paddock::reader {

// How a sparse value's text is changed before it is hashed.
enum class Bucket {
  kNone,
  kLogSquare,  // a number v becomes floor(ln(v)^2) above 2 and floor(v) else (FuxiCTR's Criteo_x4)
  kHour,       // of a date, 0 to 23
  kWeekday,    // of a date, 0 for Monday to 6
};

enum class Scale {
  kNone,
  kLog,       // sign(x) * ln(1 + |x|)
  kCentered,  // (x - center) / scale: min-max and standard
};

// A column of the output `sparse`: a value of a column, or a cross of features that stand before it.
struct SparseField {
  int column = -1;  // -1: a cross
  int place = 0;    // which value of a slot
  uint64_t slot = 0;
  Bucket bucket = Bucket::kNone;
  std::vector<int> members;  // of a cross: places in the list of sparse fields
};

struct RaggedField {
  int column = 0;
  int count = 1;  // columns side by side that hold its values
  uint64_t slot = 0;
  std::string separator;    // of the values in one column; empty: none
  int64_t max_length = -1;  // -1: any
  bool keep_last = true;    // which values of a longer one stay
  int along = -1;           // the feature before it that must have as many values; -1: none
};

struct DenseField {
  int column = 0;
  int place = 0;
  Scale scaling = Scale::kNone;
  double center = 0, scale = 1;
};

// The value 1 or 0. With neither `positive` nor `at_least` nor `number` the text itself must be 0 or 1.
struct LabelField {
  int column = 0;
  bool number = false;                // any finite number, as it is
  std::optional<double> at_least;     // 1 from here on
  std::vector<std::string> positive;  // texts that mean 1; any other means 0
};

struct PADDOCK_API LogSchema {
  // Text of rows.
  char delimiter = ',';
  char quote = 0;         // 0: none
  bool newlines = false;  // a quoted value may hold ends of lines
  bool strip = false;
  bool utf8 = true;  // else any bytes
  int64_t line_bytes = 1 << 20;
  int columns = 0;
  std::vector<std::string> missing;  // texts, beside the empty one, that mean "missing"
  std::vector<Written> written;      // of columns whose numbers and dates are not plain
  // Slot logs: the first `head` columns are bare tokens, the others the values of a key.
  bool slots = false;
  bool sign_first = false;  // `sign:slot`
  int head = 0;
  std::unordered_map<std::string_view, int> keys;  // to columns; its texts are in `key_texts`
  std::vector<std::string> key_texts;
  // What is made of them.
  std::vector<SparseField> sparse;
  std::vector<RaggedField> ragged;
  std::vector<DenseField> dense;
  std::vector<LabelField> labels;
  bool labels_optional = false;
  float missing_number = 0;                // what a missing dense value becomes: 0 or NaN
  int weight = -1, group = -1, time = -1;  // columns; -1: none

  // Raises an error of kind kAttribute for what does not fit together; to be called once, when all is set.
  void check();
};

}  // namespace paddock::reader
