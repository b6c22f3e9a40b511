// Reading tapes; everything is checked here, since a tape may come from a file.
#include "op/tape.h"

#include <charconv>

namespace paddock {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Splits off what stands before `mark`, or all of it.
std::string_view take(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  std::string_view head = trimmed(text.substr(0, at));
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return head;
}

class Parser {
 public:
  Parser(const std::string& who, int inputs) : who_(who), inputs_(inputs) {}

  std::vector<Statement> parse(std::string_view text) {
    std::vector<Statement> tape;
    while (!trimmed(text).empty()) {
      statement_ = take(text, ';');
      tape.push_back(statement(static_cast<int>(tape.size())));
    }
    if (tape.empty()) fail(ErrorKind::kAttribute, who_, ": tape is empty; it needs a statement such as exp(x0)");
    if (tape.back().kind != Statement::kElementwise) bad("the last statement must be an element-wise operator");
    return tape;
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(const Args&... why) const {
    fail(ErrorKind::kAttribute, who_, ": tape: '", statement_, "': ", why...);
  }

  Statement statement(int number) {
    std::string_view rest = statement_;
    const std::string_view name = take(rest, '(');
    if (rest.empty() || rest.back() != ')') bad("it is not of the form name(arguments)");
    rest.remove_suffix(1);
    const OpDef& op = operator_called(name);
    Statement s{kind_of(op), &op, {}, {}};
    for (const auto& spec : s.op->attrs) s.attrs.push_back(spec.fallback);
    uint64_t given = 0;
    while (!trimmed(rest).empty()) {
      std::string_view word = take(rest, ',');
      if (word.find('=') == std::string_view::npos)
        s.args.push_back(argument(word, number));
      else
        given |= uint64_t{1} << attribute(s, word);
    }
    check(s, given);
    return s;
  }

  Statement::Kind kind_of(const OpDef& op) const {
    if (!op.spreads) return Statement::kElementwise;
    if (op.name == "broadcast_like") return Statement::kBroadcastLike;
    if (op.name == "full_like") return Statement::kFullLike;
    if (op.name == "unreduce") return Statement::kUnreduce;
    bad("'", op.name, "' spreads a value in a way that a chain does not know");
  }

  const OpDef& operator_called(std::string_view name) const {
    const OpDef* op = nullptr;
    try {
      op = &find_op(name);
    } catch (const Error&) {
      bad("there is no operator '", name, "'");
    }
    if (!op->is_elementwise && !op->spreads) bad("'", name, "' is not element-wise");
    return *op;
  }

  template <class T>
  T number(std::string_view text) const {
    T value{};
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) bad("'", text, "' is not a number");
    return value;
  }

  TapeArg argument(std::string_view word, int results) const {
    if (word == "like") return {TapeArg::kLike, 0};
    const bool is_input = word.starts_with('x');
    if (!is_input && !word.starts_with('t')) bad("'", word, "' is neither x<i>, t<i> nor like");
    const int i = number<int>(word.substr(1)), count = is_input ? inputs_ : results;
    if (i < 0 || i >= count)
      bad("'", word, "' does not exist; there are ", count, is_input ? " inputs" : " results before it");
    return {is_input ? TapeArg::kInput : TapeArg::kResult, i};
  }

  int attribute(Statement& s, std::string_view word) const {
    const std::string_view name = take(word, '='), value = trimmed(word);
    const int i = s.op->attr_index(name);
    if (i < 0) bad(s.op->name, " takes no attribute '", name, "'");
    switch (s.op->attrs[i].type) {
      case AttrType::kBool:
        if (value != "true" && value != "false") bad("'", value, "' is neither true nor false");
        s.attrs[i] = value == "true";
        break;
      case AttrType::kFloat:
        s.attrs[i] = number<double>(value);
        break;
      case AttrType::kInt:
        s.attrs[i] = number<int64_t>(value);
        break;
      case AttrType::kString:
        s.attrs[i] = std::string(value);
        break;
      default:
        bad("attribute '", name, "' cannot stand in a tape");
    }
    return i;
  }

  void check(const Statement& s, uint64_t given) const {
    if (s.args.size() != s.op->inputs.size())
      bad(s.op->name, " takes ", s.op->inputs.size(), " arguments, not ", s.args.size());
    for (size_t i = 0; i < s.op->attrs.size(); ++i)
      if (s.op->attrs[i].required && !(given >> i & 1)) bad("attribute '", s.op->attrs[i].name, "' is missing");
    const bool spreads = s.kind != Statement::kElementwise;
    for (size_t i = 0; i < s.args.size(); ++i) {
      const bool last = i + 1 == s.args.size();
      if ((s.args[i].kind == TapeArg::kLike) != (spreads && last))
        bad(spreads ? "its last argument must be like" : "like can only be given to an operator that repeats a value");
      if (spreads && !last && s.args[i].kind != TapeArg::kInput) bad("it can repeat an input only");
    }
  }

  const std::string& who_;
  const int inputs_;
  std::string_view statement_;
};

}  // namespace

std::vector<Statement> parse_tape(const std::string& who, const std::string& text, int inputs) {
  return Parser(who, inputs).parse(text);
}

}  // namespace paddock
