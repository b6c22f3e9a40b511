// Normalizers.
#include "core/error.h"
#include "predictor/texts/parts.h"

namespace paddock::texts {

using predictor::Json;
using Kind = Json::Kind;

void not_done(std::string_view what) {
  fail(ErrorKind::kNotSupported, "tokenizer: ", what.substr(0, 120), " is not done by this library");
}

bool truth_of(const Json& of, const char* name, bool otherwise) {
  const Json* found = of.find(name);
  if (!found || found->is(Kind::kNull)) return otherwise;
  if (!found->is(Kind::kBool)) not_done(cat("'", name, "' that is ", kind_name(found->kind)));
  return found->truth;
}

std::string text_of(const Json& of, const char* name, const char* otherwise) {
  const Json* found = of.find(name);
  if (found && found->is(Kind::kString)) return std::string(found->string());
  if (otherwise && (!found || found->is(Kind::kNull))) return otherwise;
  not_done(cat("a part whose '", name, "' is ", found ? kind_name(found->kind) : "missing"));
}

namespace {

Characters without(const Characters& text, int kinds) {
  Characters to;
  to.reserve(text.size());
  for (const char32_t c : text)
    if (!is_kind(c, kinds)) to.push_back(c);
  return to;
}

Characters replaced(const Characters& text, const Characters& old, const Characters& by) {
  Characters to;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, old.size(), old) == 0) {
      to += by;
      i += old.size();
    } else {
      to.push_back(text[i++]);
    }
  }
  return to;
}

Normalizer sequence_of(const Json& json) {
  const Json* list = json.find("normalizers");
  if (!list || !list->is(Kind::kArray)) not_done("a sequence of normalizers that is no list");
  std::vector<Normalizer> steps;
  for (const Json* item = list->items_begin(); item != list->items_end(); ++item) steps.push_back(normalizer_of(item));
  return [steps](Characters text) {
    for (const auto& step : steps)
      if (step) text = step(std::move(text));
    return text;
  };
}

constexpr const char* kSpaces = " {2,}";  // the one expression of the converters of sentencepiece's models

Normalizer joining_spaces(const Characters& by) {
  return [by](const Characters& text) {
    Characters to;
    for (size_t i = 0, end = 0; i < text.size(); i = end) {
      for (end = i; end < text.size() && text[end] == U' ';) ++end;
      if (end - i >= 2) {
        to += by;
      } else {
        end = i + 1;
        to.push_back(text[i]);
      }
    }
    return to;
  };
}

Normalizer replacing(const Json& json) {
  const Json* pattern = json.find("pattern");
  if (pattern && text_of(*pattern, "Regex", "") == kSpaces) return joining_spaces(decoded(text_of(json, "content")));
  if (!pattern || !pattern->find("String")) not_done("a normalizer Replace with an expression");
  const Characters old = decoded(text_of(*pattern, "String")), by = decoded(text_of(json, "content"));
  if (old.empty()) not_done("a normalizer Replace of nothing");
  return [old, by](Characters text) { return replaced(text, old, by); };
}

Normalizer stripping(const Json& json) {
  const bool left = truth_of(json, "strip_left", true), right = truth_of(json, "strip_right", true);
  return [left, right](Characters text) {
    size_t begin = 0, end = text.size();
    while (left && begin < end && is_kind(text[begin], kSpace)) ++begin;
    while (right && end > begin && is_kind(text[end - 1], kSpace)) --end;
    return text.substr(begin, end - begin);
  };
}

Normalizer form(bool compatible, bool compose) {
  return [compatible, compose](Characters text) {
    Characters parts = decomposed(text, compatible);
    return compose ? composed(parts) : parts;
  };
}

}  // namespace

Normalizer bert_normalizer(bool clean, bool chinese, bool strip_accents, bool lower) {
  return [=](Characters text) {
    Characters to;
    to.reserve(text.size());
    for (char32_t c : text) {
      if (clean && is_kind(c, kRemoved)) continue;
      if (clean && is_kind(c, kBlank)) c = U' ';
      const bool alone = chinese && is_kind(c, kChinese);
      if (alone) to.push_back(U' ');
      to.push_back(c);
      if (alone) to.push_back(U' ');
    }
    if (strip_accents) to = without(decomposed(to, false), kAccent);
    return lower ? lower_case(to) : to;
  };
}

Normalizer normalizer_of(const Json* json) {
  if (!json || json->is(Kind::kNull)) return nullptr;
  const std::string type = text_of(*json, "type");
  if (type == "Sequence") return sequence_of(*json);
  if (type == "Lowercase") return lower_case;
  if (type == "NFD" || type == "NFC") return form(false, type == "NFC");
  if (type == "NFKD" || type == "NFKC") return form(true, type == "NFKC");
  if (type == "StripAccents") return [](Characters text) { return without(text, kMark); };
  if (type == "Strip") return stripping(*json);
  if (type == "Replace") return replacing(*json);
  if (type == "Precompiled") return charsmap_normalizer(*json);
  if (type == "Prepend") {
    const Characters before = decoded(text_of(*json, "prepend"));
    return [before](Characters text) { return text.empty() ? text : before + text; };
  }
  if (type == "BertNormalizer") {
    const bool lower = truth_of(*json, "lowercase", true);
    return bert_normalizer(truth_of(*json, "clean_text", true), truth_of(*json, "handle_chinese_chars", true),
                           truth_of(*json, "strip_accents", lower), lower);
  }
  not_done("the normalizer " + type);
}

}  // namespace paddock::texts
