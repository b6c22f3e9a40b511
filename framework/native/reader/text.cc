// Rows from text: delimited ones (CSV, TSV), of one line or more, and slot logs, line by line.
#include <algorithm>
#include <cstring>

#include "reader/row_start.h"
#include "reader/utf8.h"
#include "reader/writer.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace paddock::reader {
namespace {

constexpr int64_t kCellBytes = 5;  // with its delimiter: a guess

// One bit a byte of the 64 at `p`: where it is `c`.
inline uint64_t matches(const char* p, char c) {
#if defined(__SSE2__)
  const __m128i pattern = _mm_set1_epi8(c);
  uint64_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
    bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, pattern)))) << 16 * i;
  }
  return bits;
#elif defined(__ARM_NEON)
  // Each byte's own bit where it matches; three sums of neighbours leave eight of them in a byte.
  constexpr uint8_t kBits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const uint8x16_t pattern = vdupq_n_u8(static_cast<uint8_t>(c)), bit = vld1q_u8(kBits);
  uint8x16_t part[4];
  for (int i = 0; i < 4; ++i)
    part[i] = vandq_u8(vceqq_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(p) + 16 * i), pattern), bit);
  const uint8x16_t sum = vpaddq_u8(vpaddq_u8(part[0], part[1]), vpaddq_u8(part[2], part[3]));
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sum, sum)), 0);
#else
  uint64_t bits = 0;
  for (int i = 0; i < 64; ++i) bits |= static_cast<uint64_t>(p[i] == c) << i;
  return bits;
#endif
}

Cell stripped(Cell cell) {
  while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
  while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
  return cell;
}

class TextParser {
 public:
  TextParser(LogRows& rows, std::string_view text)
      : schema_(*rows.schema),
        rows_(rows),
        text_(text),
        writer_(rows, static_cast<int64_t>(text.size()) / (schema_.columns * kCellBytes) + 16),
        cells_(static_cast<size_t>(schema_.columns)) {}

  void run() {
    const bool nul = has(0), quote = schema_.quote != 0 && has(schema_.quote);
    const bool foreign = schema_.utf8 && !is_ascii(text_);
    const bool over_lines = quote && schema_.newlines;
    for (size_t begin = 0; begin < text_.size(); ++rows_.lines) {
      size_t end = over_lines ? row_end(schema_, text_, begin) : std::min(text_.find('\n', begin), text_.size());
      Cell line = text_.substr(begin, end - begin);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.empty())
        ++rows_.blank;
      else if (auto wrong = row(line, nul, quote, foreign))
        rows_.note(wrong->kind, wrong->column, wrong->count, static_cast<int64_t>(begin), wrong->text);
      if (over_lines) rows_.lines += std::count(line.begin(), line.end(), '\n');
      begin = end + 1;
    }
  }

 private:
  bool has(char c) const { return std::memchr(text_.data(), c, text_.size()) != nullptr; }

  std::optional<Wrong> row(Cell line, bool nul, bool quote, bool foreign) {
    if (static_cast<int64_t>(line.size()) > schema_.line_bytes)
      return Wrong{FaultKind::kLine, -1, line, static_cast<int64_t>(line.size())};
    if (nul && line.find('\0') != Cell::npos) return Wrong{FaultKind::kNul, -1, line};
    if (foreign && !is_utf8(line)) return Wrong{FaultKind::kText, -1, line};
    int64_t offset = line.data() - text_.data();
    if (schema_.slots) {
      if (auto wrong = split_slots(line)) return wrong;
      return writer_.add({slot_cells_.data(), slot_begin_.data()}, offset);
    }
    int found = 0;
    if (!quote || line.find(schema_.quote) == Cell::npos)
      found = split(line);
    else if (auto wrong = split_quoted(line, found))
      return wrong;
    if (found != schema_.columns) return Wrong{FaultKind::kColumns, -1, line, found};
    return writer_.add({cells_.data()}, offset);
  }

  void put(int column, Cell cell) {
    if (column < schema_.columns) cells_[column] = schema_.strip ? stripped(cell) : cell;
  }

  // Cells of a line without quotes; returns how many there are.
  int split(Cell line) {
    const char *begin = line.data(), *end = begin + line.size(), *limit = text_.data() + text_.size();
    const char* cell = begin;
    int column = 0;
    for (const char* p = begin; p < end; p += 64) {
      char tail[64] = {};  // the text's last bytes: nothing is read behind it
      const char* window = p;
      if (limit - p < 64) window = static_cast<const char*>(std::memcpy(tail, p, static_cast<size_t>(limit - p)));
      uint64_t bits = matches(window, schema_.delimiter);
      if (end - p < 64) bits &= (uint64_t{1} << (end - p)) - 1;
      for (; bits; bits &= bits - 1) {
        const char* at = p + std::countr_zero(bits);
        put(column++, Cell(cell, static_cast<size_t>(at - cell)));
        cell = at + 1;
      }
    }
    put(column++, Cell(cell, static_cast<size_t>(end - cell)));
    return column;
  }

  // Cells of a row with quotes (RFC 4180): a cell that begins with one ends with one, and a quote inside is doubled.
  std::optional<Wrong> split_quoted(Cell line, int& column) {
    scratch_.clear();
    scratch_.reserve(line.size());  // cells are views of it: it must not move
    for (size_t at = 0; at <= line.size();) {
      size_t begin = at;
      while (schema_.strip && begin < line.size() && line[begin] == ' ') ++begin;
      if (begin < line.size() && line[begin] == schema_.quote) {
        Cell cell;
        if (!unquote(line, begin, cell))
          return Wrong{FaultKind::kQuote, std::min(column, schema_.columns - 1), line.substr(at)};
        if (column < schema_.columns) cells_[column] = cell;
        at = begin;
      } else {
        size_t end = std::min(line.find(schema_.delimiter, at), line.size());
        put(column, line.substr(at, end - at));
        at = end;
      }
      ++column;
      ++at;  // the delimiter, or the end
    }
    return std::nullopt;
  }

  // The quoted cell at `at`, which is left at the delimiter behind it; false where its end is missing or text follows.
  bool unquote(Cell line, size_t& at, Cell& cell) {
    size_t first = scratch_.size();
    for (++at;; ++at) {
      size_t end = line.find(schema_.quote, at);
      if (end == Cell::npos) return false;
      scratch_.append(line, at, end - at);
      at = end + 1;
      if (at >= line.size() || line[at] != schema_.quote) break;
      scratch_.push_back(schema_.quote);
    }
    while (schema_.strip && at < line.size() && line[at] == ' ') ++at;
    cell = Cell(scratch_.data() + first, scratch_.size() - first);
    return at >= line.size() || line[at] == schema_.delimiter;
  }

  // Tokens of a slot log's line, sorted by column; keys that are not in the schema are left out.
  std::optional<Wrong> split_slots(Cell line) {
    tokens_.clear();
    slot_begin_.assign(static_cast<size_t>(schema_.columns) + 1, 0);
    int bare = 0;
    for (size_t at = 0; at < line.size();) {
      size_t end = std::min(line.find_first_of(" \t", at), line.size());
      Cell token = line.substr(at, end - at);
      at = end + 1;
      if (token.empty()) continue;
      if (auto wrong = take(token, bare)) return wrong;
    }
    if (bare != schema_.head) return Wrong{FaultKind::kColumns, -1, line, bare};
    for (size_t c = 1; c < slot_begin_.size(); ++c) slot_begin_[c] += slot_begin_[c - 1];
    slot_cells_.resize(tokens_.size());
    next_.assign(slot_begin_.begin(), slot_begin_.end() - 1);
    for (auto& [column, cell] : tokens_) slot_cells_[next_[column]++] = cell;
    return std::nullopt;
  }

  std::optional<Wrong> take(Cell token, int& bare) {
    int column;
    if (bare < schema_.head) {
      column = bare++;
    } else {
      size_t colon = schema_.sign_first ? token.rfind(':') : token.find(':');
      if (colon == Cell::npos) return Wrong{FaultKind::kSign, -1, token};
      Cell key = token.substr(0, colon), value = token.substr(colon + 1);
      if (schema_.sign_first) std::swap(key, value);
      if (key.empty() || value.empty()) return Wrong{FaultKind::kSign, -1, token};
      column = column_of(key);
      if (column < 0) return std::nullopt;
      token = value;
    }
    tokens_.emplace_back(column, token);
    ++slot_begin_[static_cast<size_t>(column) + 1];
    return std::nullopt;
  }

  // Logs repeat a key, or write keys in the schema's order: those two are tried first.
  int column_of(Cell key) {
    for (int c : {last_, last_ + 1})
      if (c >= schema_.head && c < schema_.columns && schema_.key_texts[c] == key) return last_ = c;
    auto found = schema_.keys.find(key);
    return found == schema_.keys.end() ? -1 : last_ = found->second;
  }

  const LogSchema& schema_;
  LogRows& rows_;
  std::string_view text_;
  RowWriter writer_;
  std::vector<Cell> cells_;
  std::string scratch_;
  // Of a slot log.
  std::vector<std::pair<int, Cell>> tokens_;
  std::vector<Cell> slot_cells_;
  std::vector<int32_t> slot_begin_, next_;
  int last_ = -1;
};

}  // namespace

std::shared_ptr<LogRows> parse_text(std::shared_ptr<const LogSchema> schema, std::string_view text) {
  auto rows = std::make_shared<LogRows>(std::move(schema));
  TextParser(*rows, text).run();
  return rows;
}

}  // namespace paddock::reader
