// A strict reader of JSON (RFC 8259) with budgets, and with the three names that Python writes for what is no number:
// NaN, Infinity, -Infinity. Refused beyond the RFC: a name that an object has twice, half of a surrogate pair, and
// numbers that a double cannot hold. Nothing is copied but texts with escapes.
#pragma once
#include <cstdint>
#include <memory_resource>
#include <string>
#include <string_view>

namespace paddock::predictor {

struct JsonMember;

// One value. It lives as long as its document.
struct Json {
  // kHuge: a whole number that 64 bits do not hold.
  enum class Kind : uint8_t { kNull, kBool, kInt, kHuge, kFloat, kString, kArray, kObject } kind = Kind::kNull;
  uint32_t count = 0;           // bytes of a text, elements of an array or object
  uint32_t begin = 0, end = 0;  // where it stands in the document's text
  union {
    bool truth;
    int64_t whole;
    double real;
    const char* text;
    const Json* elements;
    const JsonMember* members;  // sorted by name
  };

  Json() : whole(0) {}
  bool is(Kind k) const { return kind == k; }
  std::string_view string() const { return {text, count}; }
  // The value of that name in an object; null where there is none.
  const Json* find(std::string_view name) const;
  // The value at a JSON pointer (RFC 6901) such as "/classes/0"; null where there is none.
  const Json* at(std::string_view pointer) const;
  // Of an array.
  const Json* items_begin() const { return elements; }
  const Json* items_end() const { return elements + count; }
};

struct JsonMember {
  std::string_view name;
  Json value;
};

// What JSON's own kinds are called in errors, such as "a list".
const char* kind_name(Json::Kind kind);

struct JsonBudget {
  size_t values = size_t{8} << 20;  // of 24 bytes each
  int depth = 512;                  // lists and objects in each other
};

// A text with its values.
class JsonDocument {
 public:
  // Throws std::invalid_argument with what is wrong and where.
  explicit JsonDocument(std::string text, const JsonBudget& budget = {});
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const Json& root() const { return root_; }
  // The text of one of its values.
  std::string_view source(const Json& value) const {
    return std::string_view(text_).substr(value.begin, value.end - value.begin);
  }

 private:
  std::string text_;
  std::pmr::monotonic_buffer_resource memory_;
  Json root_;
};

// The text as JSON has it, with quotes.
std::string json_quoted(std::string_view text);

}  // namespace paddock::predictor
