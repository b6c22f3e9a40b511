// Models of pieces: WordPiece, pairs (BPE), Unigram, whole words.
#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "core/error.h"
#include "predictor/texts/parts.h"
#include "predictor/texts/trie.h"

namespace paddock::texts {
namespace {

using predictor::Json;
using Kind = Json::Kind;

constexpr int64_t kMostTokens = 10'000'000;

int64_t number_of(const Json& v) {
  if (!v.is(Kind::kInt) || v.whole < 0 || v.whole >= kMostTokens)
    fail(ErrorKind::kNotSupported, "tokenizer: the number of a token is none from 0 to ", kMostTokens);
  return v.whole;
}

Vocabulary vocabulary_of(const Json& model) {
  const Json* found = model.find("vocab");
  if (!found || !found->is(Kind::kObject)) not_done("a vocabulary that is no object");
  Vocabulary vocabulary;
  vocabulary.reserve(found->count);
  std::unordered_map<int64_t, std::string_view> tokens;
  tokens.reserve(found->count);
  for (const auto* m = found->members; m != found->members + found->count; ++m) {
    const auto [first, is_new] = tokens.emplace(number_of(m->value), m->name);
    if (!is_new) same_number(first->second, m->name, first->first);
    vocabulary.emplace(m->name, first->first);
  }
  return vocabulary;
}

// Greedily the longest pieces (Wu et al. 2016).
class WordPieceModel : public PieceModel {
 public:
  WordPieceModel(Vocabulary vocabulary, std::string unknown, std::string prefix, size_t longest)
      : PieceModel(std::move(vocabulary)), unknown_(number(unknown)), prefix_(std::move(prefix)), longest_(longest) {
    if (unknown_ < 0) fail(ErrorKind::kNotSupported, "tokenizer: the vocabulary lacks ", unknown);
    for (const auto& [token, id] : vocabulary_) most_ = std::max(most_, token.size());
  }

  void append(const Characters& word, std::vector<int64_t>& ids) const override {
    if (word.size() > longest_) return ids.push_back(unknown_);
    const std::string bytes = encoded(word);
    const size_t before = ids.size();
    std::string piece;
    for (size_t at = 0; at < bytes.size();) {
      piece.assign(at ? prefix_ : "");
      const size_t head = piece.size();
      piece.append(bytes, at, most_);
      auto found = vocabulary_.find(piece);
      while (found == vocabulary_.end() && piece.size() > head + 1) {
        piece.pop_back();
        found = vocabulary_.find(piece);
      }
      if (found == vocabulary_.end()) {
        ids.resize(before);
        return ids.push_back(unknown_);
      }
      ids.push_back(found->second);
      at += piece.size() - head;
    }
  }

 private:
  int64_t unknown_;
  std::string prefix_;
  size_t longest_, most_ = 1;
};

// Pairs are joined in the order of their merges, of equal ones the first (Sennrich et al. 2016).
class PairModel : public PieceModel {
 public:
  PairModel(Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
            const std::string& unknown, bool fuse_unknown, bool ignore_merges, bool byte_fallback)
      : PieceModel(std::move(vocabulary)),
        unknown_(unknown.empty() ? -1 : number(unknown)),
        missing_(unknown_ < 0 ? unknown : ""),
        fuse_unknown_(fuse_unknown),
        ignore_merges_(ignore_merges) {
    if (byte_fallback) not_done("byte_fallback of BPE");
    for (const auto& [first, second] : merges) {
      const int64_t a = number(first), b = number(second), both = number(first + second);
      if (a < 0 || b < 0 || both < 0)
        fail(ErrorKind::kNotSupported, "tokenizer: the merge '", first.substr(0, 40), " ", second.substr(0, 40),
             "' names what is no token");
      merges_[key(a, b)] = {static_cast<int64_t>(merges_.size()), both};
    }
  }

  void append(const Characters& word, std::vector<int64_t>& ids) const override {
    if (ignore_merges_)
      if (const int64_t whole = number(encoded(word)); whole >= 0) return ids.push_back(whole);
    std::vector<Symbol> symbols;
    bool was_unknown = false;
    for (const char32_t c : word) {
      const int64_t id = number(encoded(std::u32string_view(&c, 1)));
      if (id < 0 && !missing_.empty())  // the library fails here too
        fail(ErrorKind::kNotSupported, "tokenizer: a character is no token, and the vocabulary lacks ", missing_);
      if (id < 0 && (unknown_ < 0 || (was_unknown && fuse_unknown_))) continue;
      was_unknown = id < 0;
      const int n = static_cast<int>(symbols.size());
      symbols.push_back({id < 0 ? unknown_ : id, n - 1, n + 1});
    }
    if (symbols.empty()) return;
    symbols.back().next = -1;
    join(symbols);
    for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) ids.push_back(symbols[static_cast<size_t>(i)].id);
  }

 private:
  struct Symbol {
    int64_t id;
    int previous, next;
  };
  struct Merge {
    int64_t rank, id;
  };
  struct Candidate {
    int64_t rank;
    int place;
    int64_t id, first, second;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };
  using Queue = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

  static uint64_t key(int64_t a, int64_t b) { return static_cast<uint64_t>(a) << 32 | static_cast<uint64_t>(b); }

  void offer(const std::vector<Symbol>& symbols, int place, Queue& queue) const {
    if (place < 0 || symbols[static_cast<size_t>(place)].next < 0) return;
    const Symbol& a = symbols[static_cast<size_t>(place)];
    const Symbol& b = symbols[static_cast<size_t>(a.next)];
    const auto found = merges_.find(key(a.id, b.id));
    if (found != merges_.end()) queue.push({found->second.rank, place, found->second.id, a.id, b.id});
  }

  void join(std::vector<Symbol>& symbols) const {
    Queue queue;
    for (size_t i = 0; i < symbols.size(); ++i) offer(symbols, static_cast<int>(i), queue);
    while (!queue.empty()) {
      const Candidate c = queue.top();
      queue.pop();
      Symbol& a = symbols[static_cast<size_t>(c.place)];
      if (a.id != c.first || a.next < 0 || symbols[static_cast<size_t>(a.next)].id != c.second) continue;  // is gone
      Symbol& b = symbols[static_cast<size_t>(a.next)];
      a.id = c.id;
      b.id = -1;
      a.next = b.next;
      if (a.next >= 0) symbols[static_cast<size_t>(a.next)].previous = c.place;
      offer(symbols, a.previous, queue);
      offer(symbols, c.place, queue);
    }
  }

  std::unordered_map<uint64_t, Merge> merges_;
  int64_t unknown_;
  std::string missing_;  // the unknown token that is named and is not there
  bool fuse_unknown_, ignore_merges_;
};

// The likeliest cut (Kudo 2018).
class UnigramModel : public PieceModel {
 public:
  explicit UnigramModel(const Json& json) : PieceModel({}) {
    if (truth_of(json, "byte_fallback", false)) not_done("byte_fallback of Unigram");
    const Json* list = json.find("vocab");
    if (!list || !list->is(Kind::kArray) || list->count == 0) not_done("a vocabulary of Unigram that is no list");
    double least = std::numeric_limits<double>::infinity();
    for (const Json* pair = list->items_begin(); pair != list->items_end(); ++pair) {
      if (!pair->is(Kind::kArray) || pair->count != 2 || !pair->elements[0].is(Kind::kString))
        not_done("a piece of Unigram that is no pair of a text and a number");
      const Json& score = pair->elements[1];
      if (!score.is(Kind::kFloat) && !score.is(Kind::kInt)) not_done("a score of Unigram that is no number");
      const std::string piece(pair->elements[0].string());
      scores_.push_back(score.is(Kind::kInt) ? static_cast<double>(score.whole) : score.real);
      if (!std::isfinite(scores_.back())) not_done("a score of Unigram that is not finite");
      least = std::min(least, scores_.back());
      vocabulary_[piece] = static_cast<int64_t>(scores_.size()) - 1;
    }
    for (const auto& [piece, id] : vocabulary_) trie_.add(piece, static_cast<int>(id));
    if (const Json* unknown = json.find("unk_id"); unknown && !unknown->is(Kind::kNull)) {
      unknown_ = number_of(*unknown);
      if (unknown_ >= static_cast<int64_t>(scores_.size())) not_done("an unk_id beyond the vocabulary");
    }
    unknown_score_ = least - 10.0;
  }

  void append(const Characters& word, std::vector<int64_t>& ids) const override {
    const std::string bytes = encoded(word);
    const auto best = best_paths(bytes);
    std::vector<std::pair<size_t, size_t>> pieces;  // begin and end, from behind
    bool is_open = false;                           // the last one is of unknown characters, and grows
    for (size_t end = bytes.size(); end > 0;) {
      const Node& node = best[end];
      const auto begin = static_cast<size_t>(node.begin);
      const bool is_unknown = unknown_ >= 0 && node.id == unknown_;
      if (is_unknown && is_open)
        pieces.back().first = begin;
      else
        pieces.emplace_back(begin, end);
      is_open = is_unknown;
      end = begin;
    }
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      const int64_t id = number(bytes.substr(piece->first, piece->second - piece->first));
      ids.push_back(id < 0 ? unknown_ : id);
    }
  }

 private:
  struct Node {
    double score = 0;
    int64_t begin = -1, id = -1;
  };

  std::vector<Node> best_paths(const std::string& bytes) const {
    std::vector<Node> best(bytes.size() + 1);
    for (size_t at = 0; at < bytes.size();) {
      const auto byte = static_cast<unsigned char>(bytes[at]);
      const size_t size = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
      const double before = best[at].score;
      bool has_single = false;
      const auto offer = [&](size_t length, double score, int64_t id) {
        Node& node = best[at + length];
        if (node.begin < 0 || score + before > node.score) node = {score + before, static_cast<int64_t>(at), id};
      };
      trie_.each_prefix(std::string_view(bytes).substr(at), [&](size_t length, int id) {
        offer(length, scores_[static_cast<size_t>(id)], id);
        has_single |= length == size;
      });
      if (!has_single) {
        if (unknown_ < 0) fail(ErrorKind::kNotSupported, "tokenizer: a character has no piece, and there is no unk_id");
        offer(size, unknown_score_, unknown_);
      }
      at += size;
    }
    return best;
  }

  Trie trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  int64_t unknown_ = -1;
};

class WholeWords : public PieceModel {
 public:
  WholeWords(Vocabulary vocabulary, const std::string& unknown)
      : PieceModel(std::move(vocabulary)), unknown_(number(unknown)) {
    if (unknown_ < 0) fail(ErrorKind::kNotSupported, "tokenizer: the vocabulary lacks ", unknown);
  }
  void append(const Characters& word, std::vector<int64_t>& ids) const override {
    const int64_t id = number(encoded(word));
    ids.push_back(id < 0 ? unknown_ : id);
  }

 private:
  int64_t unknown_;
};

std::vector<std::pair<std::string, std::string>> merges_of(const Json& model) {
  const Json* list = model.find("merges");
  if (!list || !list->is(Kind::kArray)) not_done("a BPE whose merges are no list");
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json* item = list->items_begin(); item != list->items_end(); ++item) {
    if (item->is(Kind::kArray) && item->count == 2 && item->elements[0].is(Kind::kString) &&
        item->elements[1].is(Kind::kString)) {
      merges.emplace_back(item->elements[0].string(), item->elements[1].string());
    } else {
      const std::string_view line = item->is(Kind::kString) ? item->string() : std::string_view();
      const size_t space = line.find(' ');
      if (space == line.npos || line.find(' ', space + 1) != line.npos) not_done("a merge that is no two tokens");
      merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    }
  }
  return merges;
}

}  // namespace

void same_number(std::string_view first, std::string_view second, int64_t number) {
  fail(ErrorKind::kNotSupported, "tokenizer: '", first.substr(0, 40), "' and '", second.substr(0, 40),
       "' have the same number, ", number);
}

std::unique_ptr<PieceModel> word_piece(Vocabulary vocabulary, std::string unknown, std::string prefix, size_t longest) {
  return std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(unknown), std::move(prefix), longest);
}

std::unique_ptr<PieceModel> whole_words(Vocabulary vocabulary, const std::string& unknown) {
  return std::make_unique<WholeWords>(std::move(vocabulary), unknown);
}

std::unique_ptr<PieceModel> pair_encoding(Vocabulary vocabulary,
                                          const std::vector<std::pair<std::string, std::string>>& merges,
                                          const std::string& unknown, bool fuse_unknown, bool ignore_merges,
                                          bool byte_fallback) {
  return std::make_unique<PairModel>(std::move(vocabulary), merges, unknown, fuse_unknown, ignore_merges,
                                     byte_fallback);
}

std::unique_ptr<PieceModel> model_of(const Json& json) {
  const Json* vocabulary = json.find("vocab");
  const bool pieces = json.find("continuing_subword_prefix") && !json.find("merges");
  const std::string type = text_of(json, "type", pieces ? "WordPiece" : "BPE");
  if (!vocabulary) not_done("a model without a vocabulary");
  if (type == "Unigram") return std::make_unique<UnigramModel>(json);
  if (type == "WordPiece") {
    const Json* longest = json.find("max_input_chars_per_word");
    return word_piece(vocabulary_of(json), text_of(json, "unk_token", "[UNK]"),
                      text_of(json, "continuing_subword_prefix", "##"),
                      longest ? static_cast<size_t>(number_of(*longest)) : 100);
  }
  if (type == "WordLevel") return whole_words(vocabulary_of(json), text_of(json, "unk_token"));
  if (type != "BPE") not_done("the model " + type);
  for (const char* part : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!text_of(json, part, "").empty()) not_done(cat("a BPE with '", part, "'"));
  if (const Json* dropout = json.find("dropout"); dropout && !dropout->is(Kind::kNull)) not_done("dropout");
  return pair_encoding(vocabulary_of(json), merges_of(json), text_of(json, "unk_token", ""),
                       truth_of(json, "fuse_unk", false), truth_of(json, "ignore_merges", false),
                       truth_of(json, "byte_fallback", false));
}

}  // namespace paddock::texts
