// A parser by recursive descent; lists and objects are gathered on a stack and then copied to where they stay.
#include "predictor/json.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/error.h"
#include "reader/utf8.h"

namespace paddock::predictor {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(std::string_view text, std::pmr::memory_resource& memory, const JsonBudget& budget)
      : text_(text), memory_(memory), left_(budget.values), depth_left_(budget.depth) {}

  Json document() {
    Json v = value();
    skip_space();
    if (at_ != text_.size()) wrong("more text after the value");
    return v;
  }

 private:
  [[noreturn]] void wrong(std::string_view what) const { throw std::invalid_argument(cat(what, " at byte ", at_)); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }

  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json value() {
    skip_space();
    if (left_-- == 0) throw std::invalid_argument("more values than are allowed");
    const size_t begin = at_;
    Json v = bare_value();
    v.begin = static_cast<uint32_t>(begin);
    v.end = static_cast<uint32_t>(at_);
    return v;
  }

  Json bare_value() {
    switch (peek()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        return text_value();
      default:
        return word();
    }
  }

  Json word() {
    Json v;
    if (take("null")) return v;
    if (take("true") || take("false")) {
      v.kind = Json::Kind::kBool;
      v.truth = text_[at_ - 2] == 'u';
      return v;
    }
    v.kind = Json::Kind::kFloat;
    if (take("NaN"))
      v.real = std::numeric_limits<double>::quiet_NaN();
    else if (take("Infinity"))
      v.real = std::numeric_limits<double>::infinity();
    else if (take("-Infinity"))
      v.real = -std::numeric_limits<double>::infinity();
    else
      return number();
    return v;
  }

  void digits() {
    if (!is_digit(peek())) wrong("no value");
    while (is_digit(peek())) ++at_;
  }

  Json number() {
    const char* start = text_.data() + at_;
    if (peek() == '-') ++at_;
    if (peek() == '0')
      ++at_;
    else
      digits();
    bool whole = true;
    if (peek() == '.') {
      whole = false;
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      whole = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    const char* end = text_.data() + at_;
    Json v;
    if (whole) {
      v.kind = std::from_chars(start, end, v.whole).ec == std::errc() ? Json::Kind::kInt : Json::Kind::kHuge;
    } else {
      v.kind = Json::Kind::kFloat;
      if (std::from_chars(start, end, v.real).ec != std::errc()) wrong("a number that no double holds");
    }
    return v;
  }

  Json text_value() {
    const std::string_view s = string();
    Json v;
    v.kind = Json::Kind::kString;
    v.count = static_cast<uint32_t>(s.size());
    v.text = s.data();
    return v;
  }

  std::string_view string() {
    const size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 32)
      ++at_;
    if (peek() == '"') return text_.substr(begin, at_++ - begin);
    std::string made(text_.substr(begin, at_ - begin));
    while (peek() != '"') {
      if (at_ >= text_.size()) wrong("a text without an end");
      const char c = text_[at_++];
      if (static_cast<unsigned char>(c) < 32) wrong("a control character in a text");
      if (c == '\\')
        escape(made);
      else
        made.push_back(c);
    }
    ++at_;
    return kept(made.data(), made.size());
  }

  void escape(std::string& made) {
    constexpr std::string_view names = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    if (take("u")) return append_utf8(made, code_point());
    const size_t i = names.find(peek());
    if (at_ >= text_.size() || i == names.npos) wrong("an unknown escape");
    ++at_;
    made.push_back(meant[i]);
  }

  uint32_t hex4() {
    uint32_t unit = 0;
    const char* start = text_.data() + at_;
    const size_t there = std::min<size_t>(4, text_.size() - at_);
    const auto found = std::from_chars(start, start + there, unit, 16);
    if (found.ptr != start + 4) wrong("an escape without four hexadecimal digits");
    at_ += 4;
    return unit;
  }

  uint32_t code_point() {
    const uint32_t high = hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take("\\u")) wrong("half of a surrogate pair");
    const uint32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) wrong("half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  static void append_utf8(std::string& to, uint32_t c) {
    if (c < 0x80) {
      to.push_back(static_cast<char>(c));
      return;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr uint32_t first[] = {0, 0xC0, 0xE0, 0xF0};
    to.push_back(static_cast<char>(first[more] | (c >> (6 * more))));
    for (int i = more - 1; i >= 0; --i) to.push_back(static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F)));
  }

  Json array() {
    deeper();
    const size_t first = values_.size();
    ++at_;
    skip_space();
    while (peek() != ']') {
      values_.push_back(value());
      next(']');
    }
    return finish(Json::Kind::kArray, values_, first, &Json::elements);
  }

  Json object() {
    deeper();
    const size_t first = members_.size();
    ++at_;
    skip_space();
    while (peek() != '}') {
      if (peek() != '"') wrong("no name in quotes");
      const std::string_view name = string();
      skip_space();
      if (!take(":")) wrong("no ':' after a name");
      const Json v = value();
      members_.push_back({name, v});
      next('}');
    }
    const auto by_name = [](const JsonMember& a, const JsonMember& b) { return a.name < b.name; };
    const auto start = members_.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(start, members_.end(), by_name);
    const auto twice = std::adjacent_find(start, members_.end(), [](auto& a, auto& b) { return a.name == b.name; });
    if (twice != members_.end()) wrong(cat("the name ", json_quoted(twice->name.substr(0, 80)), " twice in an object"));
    return finish(Json::Kind::kObject, members_, first, &Json::members);
  }

  void deeper() {
    if (depth_left_-- == 0) throw std::invalid_argument("nested too deeply");
  }

  // Behind an element: a comma with another one behind it, or the end.
  void next(char close) {
    skip_space();
    if (peek() == close) return;
    if (!take(",")) wrong(cat("no ',' or '", close, "' after an element"));
    skip_space();
    if (peek() == close) wrong("a ',' with nothing behind it");
  }

  template <class T>
  Json finish(Json::Kind kind, std::vector<T>& stack, size_t first, const T* Json::* where) {
    ++at_;
    ++depth_left_;
    Json v;
    v.kind = kind;
    v.count = static_cast<uint32_t>(stack.size() - first);
    T* kept = v.count ? static_cast<T*>(memory_.allocate(v.count * sizeof(T), alignof(T))) : nullptr;
    std::uninitialized_copy(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end(), kept);
    stack.resize(first);
    v.*where = kept;
    return v;
  }

  std::string_view kept(const char* data, size_t size) {
    if (!size) return {};
    auto* copy = static_cast<char*>(memory_.allocate(size, 1));
    std::memcpy(copy, data, size);
    return {copy, size};
  }

  std::string_view text_;
  std::pmr::memory_resource& memory_;
  size_t left_, at_ = 0;
  int depth_left_;
  std::vector<Json> values_;
  std::vector<JsonMember> members_;
};

}  // namespace

const Json* Json::find(std::string_view name) const {
  if (kind != Kind::kObject) return nullptr;
  const auto* last = members + count;
  const auto* found = std::lower_bound(members, last, name,
                                       [](const JsonMember& m, std::string_view wanted) { return m.name < wanted; });
  return found != last && found->name == name ? &found->value : nullptr;
}

namespace {

// One step of a pointer: a name, in which ~1 stands for / and ~0 for ~, or a place in a list.
const Json* step(const Json& from, std::string_view word) {
  if (from.is(Json::Kind::kArray)) {
    uint32_t index = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), index);
    const bool whole = read.ec == std::errc() && read.ptr == word.data() + word.size();
    return whole && index < from.count ? from.elements + index : nullptr;
  }
  std::string name;
  for (size_t i = 0; i < word.size(); ++i) {
    const bool escape = word[i] == '~' && i + 1 < word.size();
    name.push_back(escape ? (word[++i] == '1' ? '/' : '~') : word[i]);
  }
  return from.find(name);
}

}  // namespace

const Json* Json::at(std::string_view pointer) const {
  const Json* found = this;
  while (found && !pointer.empty()) {
    if (pointer[0] != '/') return nullptr;
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    found = step(*found, pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
  }
  return found;
}

const char* kind_name(Json::Kind kind) {
  constexpr const char* names[] = {"null",     "true or false", "a whole number", "a huge number",
                                   "a number", "a text",        "a list",         "an object"};
  return names[static_cast<int>(kind)];
}

JsonDocument::JsonDocument(std::string text, const JsonBudget& budget) : text_(std::move(text)) {
  if (text_.size() > std::numeric_limits<uint32_t>::max()) throw std::invalid_argument("more than 4 GB of text");
  if (!reader::is_utf8(text_)) throw std::invalid_argument("not UTF-8");
  root_ = Parser(text_, memory_, budget).document();
}

std::string json_quoted(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 32) {
      out += "\\u00";
      out += digits[c >> 4];
      out += digits[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace paddock::predictor
