// Added tokens, then the normalizer, the splitter and the model on what lies between them.
#include "predictor/texts/tokenizer.h"

#include <algorithm>
#include <stdexcept>

#include "core/error.h"

namespace paddock::texts {
namespace {

using predictor::Json;
using Kind = Json::Kind;

constexpr uint32_t kMostAdded = 1 << 20;

Vocabulary vocabulary_of(const Json& metadata) {
  const Json* list = metadata.find("vocabulary");
  if (!list || !list->is(Kind::kArray)) not_done("a vocabulary that is no list");
  Vocabulary vocabulary;
  vocabulary.reserve(list->count);
  for (uint32_t i = 0; i < list->count; ++i) {
    if (!list->elements[i].is(Kind::kString)) not_done("a token that is no text");
    if (list->elements[i].count) vocabulary[std::string(list->elements[i].string())] = i;  // the last one counts
  }
  return vocabulary;
}

int64_t needed(const Vocabulary& vocabulary, const char* token) {
  const auto found = vocabulary.find(token);
  if (found == vocabulary.end()) fail(ErrorKind::kNotSupported, "tokenizer: the vocabulary lacks ", token);
  return found->second;
}

// `first second` a line, as in merges.txt.
std::vector<std::pair<std::string, std::string>> merges_of(const Json& metadata) {
  const Json* list = metadata.find("merges");
  if (!list || !list->is(Kind::kArray)) not_done("merges that are no list");
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json* item = list->items_begin(); item != list->items_end(); ++item) {
    if (!item->is(Kind::kString)) not_done("a merge that is no text");
    std::string_view line = item->string();
    while (line.ends_with('\r')) line.remove_suffix(1);
    const size_t space = line.find(' ');
    if (line.find_first_not_of(" \t\r\n\v\f") == line.npos || line.starts_with("#version")) continue;
    if (space == line.npos) not_done("a merge that is no two tokens");
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

bool is_head(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// Bytes of the space that ends at or begins at a place of a text that is UTF-8; 0 where there is none.
size_t space_before(const std::string& text, size_t end) {
  size_t begin = end;
  while (begin > 0 && !is_head(text[--begin])) {
  }
  return begin < end && is_kind(decoded(std::string_view(text).substr(begin, end - begin))[0], kSpace) ? end - begin
                                                                                                       : 0;
}

size_t space_behind(const std::string& text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && (end == begin || !is_head(text[end]))) ++end;
  return begin < end && is_kind(decoded(std::string_view(text).substr(begin, end - begin))[0], kSpace) ? end - begin
                                                                                                       : 0;
}

}  // namespace

int64_t TextTokenizer::number(const std::string& token) const {
  for (const AddedToken& added : added_)
    if (added.content == token) return added.number;
  return model_->number(token);
}

void TextTokenizer::add(AddedToken token) {
  if (token.content.empty()) return;
  const std::string shown =
      token.normalized && normalizer_ ? encoded(normalizer_(decoded(token.content))) : token.content;
  if (shown.empty()) return;
  (token.normalized ? normalized_ : plain_).add(shown, static_cast<int>(added_.size()));
  added_.push_back(std::move(token));
}

// Those that the vocabulary has keep its numbers, others are numbered on behind it; the file must say the same.
void TextTokenizer::add(const Json* list) {
  if (!list || list->is(Kind::kNull)) return;
  if (!list->is(Kind::kArray) || list->count > kMostAdded) not_done("added_tokens that are no list");
  auto next = static_cast<int64_t>(model_->size());
  std::unordered_map<int64_t, std::string_view> beyond;  // tokens whose numbers would be given again: there are gaps
  for (const auto& [token, id] : model_->vocabulary())
    if (id >= next) beyond.emplace(id, token);
  for (const Json* item = list->items_begin(); item != list->items_end(); ++item) {
    const std::string content = text_of(*item, "content");
    const Json* id = item->find("id");
    int64_t number = model_->number(content);
    if (number < 0) number = next++;
    if (!id || !id->is(Kind::kInt) || id->whole != number)
      not_done("the added token '" + content.substr(0, 40) + "', whose number does not go on behind the vocabulary,");
    if (const auto found = beyond.find(number); found != beyond.end() && found->second != content)
      same_number(found->second, content, number);
    const bool special = truth_of(*item, "special", false);
    if (truth_of(*item, "single_word", false)) not_done("an added token that is a single word");
    add({content, number, truth_of(*item, "lstrip", false), truth_of(*item, "rstrip", false),
         truth_of(*item, "normalized", !special)});
  }
}

template <class F>
void TextTokenizer::each_part(const std::string& text, const Trie& trie, F&& taken) const {
  size_t begin = 0;
  for (size_t at = 0; !trie.empty() && at < text.size();) {
    size_t length = 0;
    int which = -1;
    trie.each_prefix(std::string_view(text).substr(at), [&](size_t found, int token) {
      length = found;  // the longest
      which = token;
    });
    if (which < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = added_[static_cast<size_t>(which)];
    size_t first = at, last = at + length;
    for (size_t size = 1; token.left && size && first > begin; first -= size) size = space_before(text, first);
    for (size_t size = 1; token.right && size; last += size) size = space_behind(text, last);
    if (first > begin) taken(text.substr(begin, first - begin), nullptr);
    taken(std::string(), &token);
    begin = at = last;
  }
  if (begin < text.size()) taken(text.substr(begin), nullptr);
}

std::vector<int64_t> TextTokenizer::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  const Characters checked = decoded(text);
  if (characters_) {
    for (const char32_t c : checked) model_->append(Characters(1, c), ids);
    return ids;
  }
  bool is_start = true;
  each_part(std::string(text), plain_, [&](const std::string& part, const AddedToken* token) {
    if (token) {
      ids.push_back(token->number);
      is_start = false;
      return;
    }
    const std::string normal = normalizer_ ? encoded(normalizer_(decoded(part))) : part;
    each_part(normal, normalized_, [&](const std::string& inner, const AddedToken* other) {
      if (other) {
        ids.push_back(other->number);
      } else {
        Words words{{decoded(inner)}, is_start};
        if (splitter_) splitter_(words);
        for (const Characters& word : words.list)
          if (!word.empty()) model_->append(word, ids);
      }
      is_start = false;
    });
    is_start = false;
  });
  if (is_text_)
    for (int64_t& id : ids)
      if (id == around_.opening || id == around_.closing) id = 0;
  return ids;
}

// From TemplateProcessing, BertProcessing or RobertaProcessing.
void TextTokenizer::find_around(const Json& json) {
  const Json* post = json.find("post_processor");
  if (post && post->is(Kind::kObject) && text_of(*post, "type", "") == "Sequence") {
    const Json* list = post->find("processors");
    post = nullptr;
    if (list && list->is(Kind::kArray))
      for (const Json* item = list->items_begin(); item != list->items_end(); ++item)
        if (const Json* type = item->find("type"); type && type->is(Kind::kString) && type->string() != "ByteLevel")
          post = item;
  }
  if (!post || !post->is(Kind::kObject)) return;
  const std::string type = text_of(*post, "type");
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const auto of = [&](const char* pointer) {
      const Json* found = post->at(pointer);
      return found && found->is(Kind::kInt) ? found->whole : -1;
    };
    around_ = {of("/cls/1"), of("/sep/1"), type == "RobertaProcessing" ? 2 : 1, type == "BertProcessing"};
    return;
  }
  if (type != "TemplateProcessing") return;
  // [special, text, special], and [special, text, special..., text, special].
  const Json *one = post->find("single"), *two = post->find("pair");
  const auto special = [&](const Json& item) -> int64_t {
    const Json* id = item.at("/SpecialToken/id");
    return id && id->is(Kind::kString) ? number(std::string(id->string())) : -1;
  };
  if (!one || !one->is(Kind::kArray) || one->count != 3 || !one->elements[1].find("Sequence")) return;
  Around found{special(one->elements[0]), special(one->elements[2]), 0, false};
  if (two && two->is(Kind::kArray))
    for (uint32_t i = 2; i + 1 < two->count; ++i) {
      const Json& item = two->elements[i];
      if (special(item) == found.closing && found.closing >= 0) ++found.between;
      if (const Json* segment = item.at("/Sequence/type_id"))
        found.segments = segment->is(Kind::kInt) && segment->whole == 1;
    }
  around_ = found;
}

std::unique_ptr<TextTokenizer> TextTokenizer::of_json(const Json& json) {
  auto made = std::make_unique<TextTokenizer>();
  const Json* model = json.find("model");
  if (!model || !model->is(Kind::kObject)) not_done("a text that is no tokenizer.json");
  made->model_ = model_of(*model);
  made->normalizer_ = normalizer_of(json.find("normalizer"));
  made->splitter_ = splitter_of(json.find("pre_tokenizer"));
  made->add(json.find("added_tokens"));
  made->find_around(json);
  return made;
}

// A text that spells "</s>" is a text; as a piece of Unigram it is unknown.
void TextTokenizer::take_special_tokens_for_text() {
  added_.clear();
  plain_ = normalized_ = Trie();
  around_ = {1, 2, 1, true};
  is_text_ = true;
}

std::unique_ptr<TextTokenizer> TextTokenizer::of_metadata(const Json& metadata) {
  const std::string kind = text_of(metadata, "kind");
  if (kind == "json" || kind == "subwords") {
    try {
      const predictor::JsonDocument document(text_of(metadata, kind == "json" ? "text" : "engine"));
      auto made = of_json(document.root());
      if (kind == "subwords") made->take_special_tokens_for_text();
      return made;
    } catch (const std::invalid_argument& e) {
      fail(ErrorKind::kNotSupported, "tokenizer: its tokenizer.json is no JSON (", e.what(), ")");
    }
  }
  auto made = std::make_unique<TextTokenizer>();
  const Vocabulary vocabulary = vocabulary_of(metadata);
  const auto add = [&](const char* token, bool left = false) {
    const auto found = vocabulary.find(token);
    if (found != vocabulary.end()) made->add({token, found->second, left, false, false});
  };
  if (kind == "bert" || kind == "ernie") {
    made->around_ = {needed(vocabulary, "[CLS]"), needed(vocabulary, "[SEP]"), 1, true};
    made->model_ = word_piece(vocabulary, "[UNK]", "##", 100);
    const bool lower = truth_of(metadata, "lower_case", true);
    if (kind == "bert") {
      made->normalizer_ = bert_normalizer(true, truth_of(metadata, "chinese_characters", true),
                                          truth_of(metadata, "strip_accents", lower), lower);
      made->splitter_ = bert_splitter();
    } else {
      if (lower) made->normalizer_ = lower_case;
      made->splitter_ = ernie_splitter();
    }
    for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) add(token);
  } else if (kind == "roberta") {
    needed(vocabulary, "<unk>");
    made->around_ = {needed(vocabulary, "<s>"), needed(vocabulary, "</s>"), 2, false};
    made->model_ = pair_encoding(vocabulary, merges_of(metadata), "<unk>", false, false, false);
    made->splitter_ = byte_splitter(truth_of(metadata, "prefix_space", false));
    for (const char* token : {"<s>", "<pad>", "</s>", "<unk>"}) add(token);
    add("<mask>", true);
  } else if (kind == "characters") {
    made->around_ = {needed(vocabulary, "<s>"), needed(vocabulary, "</s>"), 1, true};
    made->characters_ = true;
    made->model_ = whole_words(vocabulary, "<unk>");
  } else {
    not_done("the tokenizer of kind " + kind);
  }
  return made;
}

}  // namespace paddock::texts
