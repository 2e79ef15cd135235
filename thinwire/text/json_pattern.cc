#include "thinwire/text/json_pattern.h"

#include <optional>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

using Node = Grammar::Node;

constexpr int kMostNesting = 100;
constexpr uint32_t kFirstHigh = 0xD800, kFirstLow = 0xDC00, kLastLow = 0xDFFF;

const CodeRanges& Digits() {
  static const CodeRanges digits = {{'0', '9'}};
  return digits;
}
const CodeRanges& Words() {
  static const CodeRanges words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return words;
}
const CodeRanges& Spaces() {
  static const CodeRanges spaces = {
      {9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
      {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return spaces;
}
const CodeRanges& Lines() {
  static const CodeRanges lines = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return lines;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Parser {
 public:
  Parser(Grammar& grammar, JsonForms& forms, std::string_view pattern, const std::string& path)
      : grammar_(grammar), forms_(forms), text_(pattern), path_(path) {}

  Node Parse() {
    std::vector<Node> ways;
    do {
      std::vector<Node> parts;
      if (!Take('^')) parts.push_back(Anything());
      AddParts(parts, 0);
      if (!Take('$')) parts.push_back(Anything());
      ways.push_back(grammar_.Sequence(std::move(parts)));
    } while (Take('|'));
    if (at_ < text_.size()) Fail(Peek() == ')' ? "\")\" without \"(\"" : "^ and $ within");
    return grammar_.Choice(std::move(ways));
  }

 private:
  [[noreturn]] void Fail(std::string_view what) const {
    throw UsageError(StrCat("JSON schema: ", Printable(path_), ": ", what, " at character ",
                            at_ + 1, " of \"", Printable(text_), '"'));
  }

  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Node Anything() { return grammar_.Repeat(forms_.AnyCharacter(), 0); }

  Node Choice(int depth) {
    if (depth > kMostNesting) Fail("too many groups in one another");
    std::vector<Node> ways;
    do {
      std::vector<Node> parts;
      AddParts(parts, depth);
      ways.push_back(grammar_.Sequence(std::move(parts)));
    } while (Take('|'));
    return grammar_.Choice(std::move(ways));
  }

  void AddParts(std::vector<Node>& parts, int depth) {
    while (at_ < text_.size() && std::string_view("|)^$").find(Peek()) == std::string_view::npos) {
      parts.push_back(Repeats(Part(depth)));
    }
  }

  Node Part(int depth) {
    if (Take('(')) {
      if (Take('?') && !Take(':')) {
        if (!Take('<') || Peek() == '=' || Peek() == '!') Fail("looking ahead or behind");
        while (at_ < text_.size() && Peek() != '>') ++at_;
        if (!Take('>')) Fail("the name of a group without its end");
      }
      const Node group = Choice(depth + 1);
      if (!Take(')')) Fail(Peek() == '\0' ? "a group without its end" : "^ and $ within");
      return group;
    }
    if (Take('.')) return forms_.Character(Complement(Lines()));
    if (Take('[')) return Class();
    if (std::string_view("*+?{").find(Peek()) != std::string_view::npos) Fail("nothing to repeat");
    if (Take('\\')) {
      if (const std::optional<CodeRanges> set = SetEscape()) return forms_.Character(*set);
      const uint32_t c = Escape();
      return forms_.Character({{c, c}});
    }
    const uint32_t c = Next();
    return forms_.Character({{c, c}});
  }

  Node Repeats(Node part) {
    int64_t least = 1, most = 1;
    if (Take('*')) {
      least = 0, most = Grammar::kNoLimit;
    } else if (Take('+')) {
      most = Grammar::kNoLimit;
    } else if (Take('?')) {
      least = 0;
    } else if (Take('{')) {
      least = most = Count();
      if (Take(',')) most = Peek() == '}' ? Grammar::kNoLimit : Count();
      if (!Take('}')) Fail("a repetition without its end");
      if (most != Grammar::kNoLimit && most < least)
        Fail("a repetition that ends before it begins");
    } else {
      return part;
    }
    Take('?');  // how far it looks first does not change what is found
    return grammar_.Repeat(part, least, most);
  }

  int64_t Count() {
    if (!IsDigit(Peek())) Fail("a repetition without a number");
    int64_t count = 0;
    for (; IsDigit(Peek()); ++at_) {
      count = 10 * count + (Peek() - '0');
      if (count > Grammar::kMostRepeats) Fail("too many times");
    }
    return count;
  }

  uint32_t Next() {
    const Utf8Step step = NextUtf8(text_.substr(at_));
    if (step.state != Utf8State::kValid) Fail("no UTF-8");
    const uint32_t c = CodePoint(text_.substr(at_), step.size);
    at_ += step.size;
    return c;
  }

  // Behind a backslash.
  std::optional<CodeRanges> SetEscape() {
    const CodeRanges* set = nullptr;
    switch (Peek()) {
      case 'd':
      case 'D':
        set = &Digits();
        break;
      case 'w':
      case 'W':
        set = &Words();
        break;
      case 's':
      case 'S':
        set = &Spaces();
        break;
      default:
        return std::nullopt;
    }
    const bool others = Peek() < 'a';
    ++at_;
    return others ? Complement(*set) : *set;
  }

  uint32_t Escape() {
    const char c = Peek();
    constexpr std::string_view kNames = "tnvfr", kMeant = "\t\n\v\f\r";
    if (const size_t name = kNames.find(c); c != '\0' && name != std::string_view::npos) {
      ++at_;
      return static_cast<unsigned char>(kMeant[name]);
    }
    if (c == 'x' || c == 'u') {
      ++at_;
      return c == 'x' ? Hex(2) : Unicode();
    }
    if (c == '0' && !IsDigit(Peek(1))) {
      ++at_;
      return 0;
    }
    if (IsDigit(c)) Fail("a reference to a group");
    if (at_ == text_.size() || IsLetter(c)) Fail("an escape that is not known here");
    return Next();
  }

  uint32_t Hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = Peek();
      const bool digit = IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!digit) Fail("an escape with too few digits");
      value = 16 * value + static_cast<uint32_t>(IsDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
  }

  uint32_t Unicode() {
    const uint32_t first = Hex(4);
    if (first < kFirstHigh || first > kLastLow) return first;
    if (first < kFirstLow && Peek() == '\\' && Peek(1) == 'u') {
      at_ += 2;
      const uint32_t second = Hex(4);
      if (second >= kFirstLow && second <= kLastLow) {
        return 0x10000 + ((first - kFirstHigh) << 10) + (second - kFirstLow);
      }
    }
    Fail("half of a character");
  }

  Node Class() {
    const bool others = Take('^');
    CodeRanges ranges;
    while (!Take(']')) {
      if (at_ == text_.size()) Fail("a class without its end");
      const std::optional<CodeRanges> set = ClassPart();
      if (set) {
        ranges.insert(ranges.end(), set->begin(), set->end());
        continue;
      }
      CodeRange range;
      range.first = range.last = ClassCharacter();
      if (Peek() == '-' && Peek(1) != ']' && Peek(1) != '\0') {
        ++at_;
        if (ClassPart()) Fail("a range that ends with a class");
        range.last = ClassCharacter();
        if (range.last < range.first) Fail("a range that ends before it begins");
      }
      ranges.push_back(range);
    }
    const CodeRanges all = others ? Complement(ranges) : Normalized(ranges);
    if (all.empty()) Fail("a class of no characters");
    return forms_.Character(all);
  }

  std::optional<CodeRanges> ClassPart() {
    if (Peek() != '\\') return std::nullopt;
    ++at_;
    const std::optional<CodeRanges> set = SetEscape();
    if (!set) --at_;
    return set;
  }

  uint32_t ClassCharacter() {
    if (!Take('\\')) return Next();
    if (!Take('b')) return Escape();
    return '\b';
  }

  Grammar& grammar_;
  JsonForms& forms_;
  const std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
};

}  // namespace

Node PatternContent(Grammar& grammar, JsonForms& forms, std::string_view pattern,
                    const std::string& path) {
  return Parser(grammar, forms, pattern, path).Parse();
}

}  // namespace thinwire::text
