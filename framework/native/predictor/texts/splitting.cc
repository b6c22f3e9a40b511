// Pre-tokenizers. Expressions are written out by hand: those of GPT-2, GPT-4, Llama 3 and Qwen 2.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"
#include "predictor/texts/parts.h"

namespace paddock::texts {
namespace {

using predictor::Json;
using Kind = Json::Kind;

// Where words of a text end, as single words or runs of what is dropped.
using Cut = std::function<void(const Characters& text, std::vector<Characters>& words)>;

Splitter each(Cut cut) {
  return [cut](Words& words) {
    std::vector<Characters> found;
    for (const Characters& word : words.list)
      if (!word.empty()) cut(word, found);
    std::erase_if(found, [](const Characters& word) { return word.empty(); });
    words.list = std::move(found);
  };
}

// Words between characters of some kinds, which are dropped, or where they are `kept` each a word by itself.
void cut_between(const Characters& text, int kinds, bool kept, std::vector<Characters>& words) {
  Characters word;
  for (const char32_t c : text) {
    if (!is_kind(c, kinds)) {
      word.push_back(c);
      continue;
    }
    words.push_back(word);
    if (kept) words.push_back(Characters(1, c));
    word.clear();
  }
  words.push_back(word);
}

// A place in a text that is matched from left to right.
class Cursor {
 public:
  explicit Cursor(const Characters& text) : text_(text) {}
  bool at_end() const { return !has(0); }
  bool has(size_t ahead) const { return at_ + ahead < text_.size(); }
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool is(int kinds, size_t ahead = 0) const {
    return at_ + ahead < text_.size() && is_kind(text_[at_ + ahead], kinds);
  }
  bool is_other(size_t ahead = 0) const {
    return at_ + ahead < text_.size() && !is_kind(text_[at_ + ahead], kRegexSpace | kLetter | kNumber);
  }
  bool is_line_end(size_t ahead = 0) const {
    return at_ + ahead < text_.size() && (text_[at_ + ahead] == U'\n' || text_[at_ + ahead] == U'\r');
  }
  size_t run(int kinds, size_t from) const {
    while (is(kinds, from)) ++from;
    return from;
  }
  void take(size_t count, std::vector<Characters>& words) {
    words.push_back(text_.substr(at_, count));
    at_ += count;
  }

 private:
  const Characters& text_;
  size_t at_ = 0;
};

// 's, 't, 'm, 'd, 're, 've, 'll: how many characters; 0 where there is none. `any_case`: of any case.
size_t contraction(const Cursor& at, bool any_case) {
  if (at.peek() != U'\'') return 0;
  const auto small = [&](size_t ahead) -> char32_t {
    const char32_t c = at.peek(ahead);
    if (any_case && c >= U'A' && c <= U'Z') return c + 32;
    return any_case && c == 0x17F ? U's' : c;  // the long s is one of its cases
  };
  const char32_t a = small(1), b = small(2);
  if (a == U's' || a == U't' || a == U'm' || a == U'd') return 2;
  return (a == U'r' && b == U'e') || (a == U'v' && b == U'e') || (a == U'l' && b == U'l') ? 3 : 0;
}

// Spaces behind which something comes leave it their last one.
size_t spaces(const Cursor& at) {
  const size_t end = at.run(kRegexSpace, 0);
  return end > 1 && at.has(end) ? end - 1 : end;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
void cut_gpt2(const Characters& text, std::vector<Characters>& words) {
  for (Cursor at(text); !at.at_end();) {
    const size_t first = at.peek() == U' ' ? 1 : 0;
    size_t count = contraction(at, false);
    if (count) {
    } else if (at.is(kLetter, first)) {
      count = at.run(kLetter, first);
    } else if (at.is(kNumber, first)) {
      count = at.run(kNumber, first);
    } else if (at.is_other(first)) {
      for (count = first; at.is_other(count);) ++count;
    } else {
      count = spaces(at);
    }
    at.take(count, words);
  }
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,D}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
void cut_gpt4(const Characters& text, size_t digits, std::vector<Characters>& words) {
  for (Cursor at(text); !at.at_end();) {
    const size_t first = at.peek() == U' ' ? 1 : 0;
    size_t count = contraction(at, true);
    if (count) {
    } else if (at.is(kLetter)) {
      count = at.run(kLetter, 0);
    } else if (!at.is(kNumber) && !at.is_line_end() && at.is(kLetter, 1)) {
      count = at.run(kLetter, 1);
    } else if (at.is(kNumber)) {
      count = std::min(at.run(kNumber, 0), digits);
    } else if (at.is_other(first)) {
      for (count = first; at.is_other(count);) ++count;
      while (at.is_line_end(count)) ++count;
    } else {
      const size_t end = at.run(kRegexSpace, 0);
      size_t last = end;
      while (last > 0 && !at.is_line_end(last - 1)) --last;
      count = last ? last : spaces(at);
    }
    at.take(count, words);
  }
}

// \w+|[^\w\s]+, as Rust understands it
void cut_words(const Characters& text, std::vector<Characters>& words) {
  for (Cursor at(text); !at.at_end();) {
    size_t count = at.run(kWord, 0);
    if (!count)
      while (at.has(count) && !at.is(kWord | kSpace, count)) ++count;
    std::vector<Characters> dropped;
    count ? at.take(count, words) : at.take(1, dropped);
  }
}

// The 256 printable characters that bytes are written as (GPT-2).
const std::array<char32_t, 256>& byte_characters() {
  static const auto table = [] {
    std::array<char32_t, 256> made{};
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      made[static_cast<size_t>(byte)] = printable ? static_cast<char32_t>(byte) : next++;
    }
    return made;
  }();
  return table;
}

Splitter byte_level(bool prefix_space, bool cuts) {
  return [prefix_space, cuts](Words& words) {
    std::vector<Characters> found;
    for (Characters& word : words.list) {
      if (word.empty()) continue;
      if (prefix_space && word[0] != U' ') word.insert(word.begin(), U' ');
      cuts ? cut_gpt2(word, found) : found.push_back(word);
    }
    for (Characters& word : found) {
      Characters bytes;
      for (const char byte : encoded(word)) bytes.push_back(byte_characters()[static_cast<unsigned char>(byte)]);
      word = std::move(bytes);
    }
    words.list = std::move(found);
  };
}

Splitter metaspace(const Json& json) {
  const Characters mark = decoded(text_of(json, "replacement", "\xE2\x96\x81"));
  if (mark.size() != 1) not_done("a Metaspace with more than one character");
  const bool old_prefix = truth_of(json, "add_prefix_space", true);
  const std::string scheme = text_of(json, "prepend_scheme", old_prefix ? "always" : "never");
  const bool splits = truth_of(json, "split", true);
  if (scheme != "always" && scheme != "first" && scheme != "never") not_done("prepend_scheme '" + scheme + "'");
  return [mark = mark[0], scheme, splits](Words& words) {
    std::vector<Characters> found;
    bool is_first = words.is_start;
    for (Characters word : words.list) {
      if (word.empty()) continue;
      std::replace(word.begin(), word.end(), U' ', mark);
      if (word[0] != mark && (scheme == "always" || (scheme == "first" && is_first))) word.insert(word.begin(), mark);
      is_first = false;
      size_t begin = 0;
      for (size_t i = 1; splits && i < word.size(); ++i)
        if (word[i] == mark) {
          found.push_back(word.substr(begin, i - begin));
          begin = i;
        }
      found.push_back(word.substr(begin));
    }
    words.list = std::move(found);
  };
}

Splitter split_by_pattern(const Json& json) {
  const Json* pattern = json.find("pattern");
  const std::string how = text_of(json, "behavior");
  if (!pattern || !pattern->find("Regex") || truth_of(json, "invert", false) || how != "Isolated")
    not_done("a Split that is not by an expression whose matches are isolated");
  const std::string expression = text_of(*pattern, "Regex");
  const std::string head = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})";
  const std::string tail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (expression == head + tail) return each([](const auto& text, auto& words) { cut_gpt4(text, 1, words); });
  if (expression == head + "{1,3}" + tail) return each([](const auto& text, auto& words) { cut_gpt4(text, 3, words); });
  if (expression == R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)")
    return each(cut_gpt2);
  not_done("the expression " + expression);
}

Splitter sequence_of(const Json& json) {
  const Json* list = json.find("pretokenizers");
  if (!list || !list->is(Kind::kArray)) not_done("a sequence of pre-tokenizers that is no list");
  std::vector<Splitter> steps;
  for (const Json* item = list->items_begin(); item != list->items_end(); ++item) {
    // Whether a word stands at the start of the text is not known behind another cut.
    if (const Json* scheme = item->find("prepend_scheme"); scheme && !steps.empty())
      if (scheme->is(Kind::kString) && scheme->string() == "first")
        not_done("a Metaspace of the first word behind others");
    steps.push_back(splitter_of(item));
  }
  return [steps](Words& words) {
    for (const auto& step : steps)
      if (step) step(words);
  };
}

}  // namespace

Splitter bert_splitter() {
  return each([](const Characters& text, std::vector<Characters>& words) {
    std::vector<Characters> parts;
    cut_between(text, kSpace, false, parts);
    for (const auto& part : parts) cut_between(part, kPunctuation, true, words);
  });
}

Splitter byte_splitter(bool prefix_space) { return byte_level(prefix_space, true); }

// [a-zA-Z0-9]+|\S
Splitter ernie_splitter() {
  return each([](const Characters& text, std::vector<Characters>& words) {
    const auto latin = [](char32_t c) {
      return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9');
    };
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && latin(text[end])) ++end;
      if (end > i)
        words.push_back(text.substr(i, end - i));
      else if (!is_kind(text[end++], kRegexSpace))
        words.push_back(Characters(1, text[i]));
      i = end;
    }
  });
}

Splitter splitter_of(const Json* json) {
  if (!json || json->is(Kind::kNull)) return nullptr;
  const std::string type = text_of(*json, "type");
  if (type == "Sequence") return sequence_of(*json);
  if (type == "BertPreTokenizer") return bert_splitter();
  if (type == "ByteLevel")
    return byte_level(truth_of(*json, "add_prefix_space", true), truth_of(*json, "use_regex", true));
  if (type == "Metaspace") return metaspace(*json);
  if (type == "WhitespaceSplit")
    return each([](const auto& text, auto& words) { cut_between(text, kSpace, false, words); });
  if (type == "Whitespace") return each(cut_words);
  if (type == "Split") return split_by_pattern(*json);
  not_done("the pre-tokenizer " + type);
}

}  // namespace paddock::texts
