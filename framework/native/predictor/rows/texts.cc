#include "predictor/rows/texts.h"

#include "core/error.h"

namespace paddock::rows {
namespace {

constexpr int kShown = 40;  // characters of a wrong text that an error tells

std::string_view shown(std::string_view text) {
  size_t size = 0;
  for (int characters = 0; size < text.size(); ++size) {
    const bool begins = (static_cast<unsigned char>(text[size]) & 0xc0) != 0x80;
    if (begins && ++characters > kShown) break;
  }
  return text.substr(0, size);
}

std::vector<std::string_view> tokens_of(std::string_view line) {
  std::vector<std::string_view> tokens;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    if (end > at) tokens.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return tokens;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

RowTexts::RowTexts(size_t columns, const std::vector<std::string_view>& cells) : columns_(columns) {
  for (size_t i = 0; i < cells.size(); ++i) columns_[i % columns].add(cells[i]);
}

RowTexts::RowTexts(const reader::LogSchema& schema, const std::vector<std::string>& head,
                   const std::vector<std::string_view>& lines)
    : columns_(static_cast<size_t>(schema.columns)) {
  for (size_t c = head.size(); c < columns_.size(); ++c) columns_[c].lists.push_back(0);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) fail(ErrorKind::kShape, "line ", i, " is empty");
    if (line.find('\n') != line.npos) fail(ErrorKind::kShape, "line ", i, " holds the end of a line");
    const auto tokens = tokens_of(line);
    size_t bare = 0;
    for (size_t t = 0; t < std::min(tokens.size(), head.size()); ++t) bare += tokens[t].find(':') == line.npos;
    if (bare < head.size())
      fail(ErrorKind::kShape, "line ", i, ": has ", bare, " values before its pairs; the head is ", listed(head));
    for (size_t t = 0; t < head.size(); ++t) columns_[t].add(tokens[t]);
    for (size_t t = head.size(); t < tokens.size(); ++t) {
      const std::string_view token = tokens[t];
      const size_t colon = schema.sign_first ? token.rfind(':') : token.find(':');
      if (colon == token.npos || colon == 0 || colon + 1 == token.size())
        fail(ErrorKind::kShape, "line ", i, ": '", shown(token), "' is no pair; expected ",
             schema.sign_first ? "sign:slot" : "slot:sign");
      std::string_view slot = token.substr(0, colon), sign = token.substr(colon + 1);
      if (schema.sign_first) std::swap(slot, sign);
      const auto found = schema.keys.find(slot);
      if (found != schema.keys.end()) columns_[static_cast<size_t>(found->second)].add(sign);
    }
    for (size_t c = head.size(); c < columns_.size(); ++c)
      columns_[c].lists.push_back(static_cast<int64_t>(columns_[c].offsets.size()) - 1);
  }
}

std::vector<reader::TextColumn> RowTexts::columns() const {
  std::vector<reader::TextColumn> found;
  for (const Column& c : columns_) found.push_back({c.text, c.offsets, {}, c.lists});
  return found;
}

}  // namespace paddock::rows
