#include "thinwire/text/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr int kMostNesting = 200;
constexpr int kMostSigns = 8;  // of repetition behind one part

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '-' || c == '_';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    if (text.size() > kMostBytes) {
      throw UsageError(StrCat("grammar: ", text.size(), " bytes, at most ", kMostBytes));
    }
    const size_t valid = ValidUtf8Prefix(text);
    if (valid < text.size()) Fail(valid, "no UTF-8");
  }

  Grammar Parse() {
    SkipSpace(true);
    while (at_ < text_.size()) {
      ParseRule();
      SkipSpace(true);
    }
    for (const auto& [name, rule] : rules_) {
      if (!rule.defined) Fail(rule.first_seen, StrCat("there is no rule \"", name, "\""));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw UsageError("grammar: there is no rule \"root\"");
    grammar_.SetRoot(root->second.index);
    return std::move(grammar_);
  }

 private:
  using Node = Grammar::Node;
  struct Known {
    int32_t index;
    size_t first_seen;
    bool defined = false;
  };

  [[noreturn]] void Fail(size_t at, std::string_view what) const {
    const std::string_view before = text_.substr(0, at);
    const auto line = std::ranges::count(before, '\n') + 1;
    const size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
    throw UsageError(StrCat("grammar: line ", line, ", column ", at - begin + 1, ": ", what));
  }
  [[noreturn]] void FailHere(std::string_view expected) const {
    std::string found = "the end";
    if (at_ < text_.size()) {
      const Utf8Step step = NextUtf8(text_.substr(at_));
      found = text_[at_] == '\n' ? "the end of the line"
                                 : StrCat('"', text_.substr(at_, step.size), '"');
    }
    Fail(at_, StrCat("expected ", expected, ", found ", found));
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // And comments; over ends of lines where `lines`.
  void SkipSpace(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        if (at_ == text_.size()) return;
      }
      const bool space = c == ' ' || c == '\t' || c == '\r' || (lines && text_[at_] == '\n');
      if (!space) return;
    }
  }

  std::string Name() {
    const size_t begin = at_;
    while (IsWord(Peek())) ++at_;
    if (at_ == begin) FailHere("the name of a rule");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Known& Find(const std::string& name, size_t seen) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    return rules_.emplace(name, Known{grammar_.AddRule(name), seen}).first->second;
  }

  void ParseRule() {
    const size_t begin = at_;
    Known& rule = Find(Name(), begin);
    if (rule.defined) Fail(begin, "this rule is there already");
    rule.defined = true;
    SkipSpace(false);
    for (const char c : std::string_view("::=")) {
      if (!Take(c)) FailHere("\"::=\"");
    }
    SkipSpace(true);
    grammar_.Define(rule.index, ParseChoice(0));
    if (at_ < text_.size() && Peek() != '\n') FailHere("a part of the rule or the end of the line");
  }

  Node ParseChoice(int depth) {
    if (depth > kMostNesting)
      Fail(at_, StrCat("more than ", kMostNesting, " groups in one another"));
    std::vector<Node> parts = {ParseSequence(depth)};
    for (;;) {
      const size_t end = at_;
      SkipSpace(true);
      if (!Take('|')) {
        at_ = end;
        return grammar_.Choice(std::move(parts));
      }
      SkipSpace(true);
      parts.push_back(ParseSequence(depth));
    }
  }

  Node ParseSequence(int depth) {
    std::vector<Node> parts;
    while (const std::optional<Node> part = ParsePart(depth)) {
      parts.push_back(ParseRepeats(*part));
      SkipSpace(depth > 0);
    }
    return grammar_.Sequence(std::move(parts));
  }

  std::optional<Node> ParsePart(int depth) {
    const size_t begin = at_;
    const char c = Peek();
    if (c == '"') return ParseLiteral();
    if (c == '[') return ParseClass();
    if (Take('.')) return grammar_.Characters({{0, kLastCodePoint}});
    if (Take('(')) {
      SkipSpace(true);
      const Node group = ParseChoice(depth + 1);
      SkipSpace(true);
      if (!Take(')')) FailHere("\")\"");
      return group;
    }
    if (!IsWord(c)) return std::nullopt;
    const std::string name = Name();
    const size_t end = at_;
    SkipSpace(false);
    if (text_.substr(at_).starts_with("::=")) {
      if (depth > 0) Fail(begin, "a rule begins before \")\"");
      at_ = begin;
      return std::nullopt;
    }
    at_ = end;
    return grammar_.Call(Find(name, begin).index);
  }

  Node ParseRepeats(Node part) {
    for (int signs = 0;; ++signs) {
      if (signs == kMostSigns) Fail(at_, "too many repetitions of one another");
      if (Take('*')) {
        part = grammar_.Repeat(part, 0);
      } else if (Take('+')) {
        part = grammar_.Repeat(part, 1);
      } else if (Take('?')) {
        part = grammar_.Optional(part);
      } else if (Take('{')) {
        part = ParseCounts(part);
      } else {
        return part;
      }
    }
  }

  Node ParseCounts(Node part) {
    const size_t begin = at_ - 1;
    const int64_t least = Count();
    int64_t most = least;
    if (Take(',')) {
      SkipSpace(false);
      most = Peek() == '}' ? Grammar::kNoLimit : Count();
    }
    if (!Take('}')) FailHere("\"}\" or \",\"");
    if (most != Grammar::kNoLimit && most < least) {
      Fail(begin, StrCat("{", least, ",", most, "}: the second number is less than the first"));
    }
    return grammar_.Repeat(part, least, most);
  }

  int64_t Count() {
    SkipSpace(false);
    if (!IsDigit(Peek())) FailHere("a number");
    const size_t begin = at_;
    int64_t count = 0;
    for (; IsDigit(Peek()); ++at_) {
      count = 10 * count + (Peek() - '0');
      if (count > Grammar::kMostRepeats) {
        Fail(begin, StrCat("more than ", Grammar::kMostRepeats, " times"));
      }
    }
    SkipSpace(false);
    return count;
  }

  Node ParseLiteral() {
    const size_t begin = at_++;
    std::string text;
    while (!Take('"')) AppendUtf8(Character(begin, "a literal"), &text);
    return grammar_.Literal(std::move(text));
  }

  Node ParseClass() {
    const size_t begin = at_++;
    const bool others = Take('^');
    CodeRanges ranges;
    while (!Take(']')) {
      CodeRange range;
      range.first = range.last = Character(begin, "a class");
      if (Peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        range.last = Character(begin, "a class");
        if (range.last < range.first) Fail(at_, "this range ends before it begins");
      }
      ranges.push_back(range);
    }
    CodeRanges all = others ? Complement(ranges) : Normalized(ranges);
    if (all.empty()) Fail(begin, "a class of no characters");
    return grammar_.Characters(std::move(all));
  }

  // One of a literal or class that began at `begin`.
  uint32_t Character(size_t begin, std::string_view what) {
    if (at_ == text_.size() || Peek() == '\n') Fail(begin, StrCat(what, " without its end"));
    if (Take('\\')) return Escape();
    const Utf8Step step = NextUtf8(text_.substr(at_));
    const uint32_t code_point = CodePoint(text_.substr(at_), step.size);
    at_ += step.size;
    return code_point;
  }

  uint32_t Escape() {
    const size_t begin = at_ - 1;
    const char c = Peek();
    ++at_;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return Hex(begin, 2);
      case 'u':
        return Hex(begin, 4);
      case 'U':
        return Hex(begin, 8);
      default:
        if (c != '\0' && std::string_view("\\\"[]-^").find(c) != std::string_view::npos) {
          return static_cast<unsigned char>(c);
        }
        Fail(begin, "no escape of this notation");
    }
  }

  uint32_t Hex(size_t begin, int digits) {
    uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = Peek();
      const size_t digit = std::string_view("0123456789abcdef")
                               .find(static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c));
      if (c == '\0' || digit == std::string_view::npos) {
        Fail(begin, StrCat("an escape of ", digits, " hexadecimal digits has fewer"));
      }
      value = 16 * value + digit;
    }
    const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    if (value > kLastCodePoint || surrogate) Fail(begin, "no character has this number");
    return static_cast<uint32_t>(value);
  }

  const std::string_view text_;
  size_t at_ = 0;
  Grammar grammar_;
  std::map<std::string, Known> rules_;
};

}  // namespace

Grammar ParseGbnf(std::string_view text) { return Parser(text).Parse(); }

}  // namespace thinwire::text
