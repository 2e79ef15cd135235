#include "thinwire/text/template_lexer.h"

#include <algorithm>
#include <array>

#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

using Kind = TemplateToken::Kind;

std::string Message(std::string_view source, size_t offset, std::string_view problem) {
  const std::string_view before = source.substr(0, offset);
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto characters = std::ranges::count_if(before.substr(line_begin), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
  return StrCat("chat template, line ", line, ", column ", characters + 1, ": ", problem);
}

bool IsNameByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '_' || byte >= 0x80;
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(source) {}

  std::vector<TemplateToken> Run() {
    while (at_ < source_.size()) LexText();
    Add(Kind::kEnd, "", at_);
    return std::move(tokens_);
  }

 private:
  std::string_view Rest(size_t from) const { return std::string_view(source_).substr(from); }
  [[noreturn]] void Fail(size_t offset, std::string_view problem) const {
    throw TemplateError(source_, offset, problem);
  }
  void Add(Kind kind, std::string text, size_t offset) {
    tokens_.push_back({kind, std::move(text), static_cast<uint32_t>(offset)});
  }

  // Text up to the next tag, and the tag.
  void LexText() {
    const size_t tag = NextTag(at_);
    if (tag == std::string::npos) {
      AddText(at_, source_.size());
      at_ = source_.size();
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    AddText(at_, StrippedEnd(at_, tag, sign, kind != '{'));
    at_ = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    if (kind == '#') {
      SkipComment(tag);
    } else if (kind == '{') {
      Add(Kind::kPrintBegin, "{{", tag);
      LexTag(tag, "}}", Kind::kPrintEnd);
    } else if (!LexRaw(tag)) {
      Add(Kind::kBlockBegin, "{%", tag);
      LexTag(tag, "%}", Kind::kBlockEnd);
    }
  }

  size_t NextTag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() && std::string_view("{%#").find(source_[at + 1]) < 3) return at;
    }
    return std::string::npos;
  }

  void AddText(size_t begin, size_t end) {
    if (end > begin) Add(Kind::kText, source_.substr(begin, end - begin), begin);
  }

  // The end of the text before a tag: "-" takes all white space before the tag, and before blocks
  // and comments what the tag's line begins with goes (lstrip_blocks).
  size_t StrippedEnd(size_t begin, size_t end, char sign, bool strips_line) const {
    const std::string_view text = Rest(begin).substr(0, end - begin);
    if (sign == '-') return end - TrailingSpace(text);
    if (sign == '+' || !strips_line) return end;
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return end;
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    return LeadingSpace(text.substr(line)) == text.size() - line ? begin + line : end;
  }

  // Whether the tag ends here with `close`; if so, goes behind it and what it takes.
  bool SkipClose(std::string_view close) {
    const std::string_view rest = Rest(at_);
    const size_t begin = at_;
    const bool trims = close != "}}";  // one newline behind blocks and comments (trim_blocks)
    if (rest.starts_with("-") && rest.substr(1).starts_with(close)) {
      at_ += 1 + close.size();
      at_ += LeadingSpace(Rest(at_));
    } else if (trims && rest.starts_with("+") && rest.substr(1).starts_with(close)) {
      at_ += 1 + close.size();
    } else if (rest.starts_with(close)) {
      at_ += close.size();
      if (trims && at_ < source_.size() && source_[at_] == '\n') ++at_;
    } else {
      return false;
    }
    line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
    return true;
  }

  void SkipComment(size_t tag) {
    for (; at_ < source_.size(); ++at_) {
      if (SkipClose("#}")) return;
    }
    Fail(tag, "the comment has no end");
  }

  // {% raw %} text {% endraw %}
  bool LexRaw(size_t tag) {
    const auto word = [&](size_t from, std::string_view name) -> size_t {  // behind it, or 0
      from += LeadingSpace(Rest(from));
      if (!Rest(from).starts_with(name)) return 0;
      from += name.size();
      return from + LeadingSpace(Rest(from));
    };
    const size_t open = word(at_, "raw");
    if (open == 0) return false;
    const bool minus = Rest(open).starts_with("-%}");
    if (!minus && !Rest(open).starts_with("%}")) return false;
    at_ = open + (minus ? 3 : 2);
    if (minus) at_ += LeadingSpace(Rest(at_));
    line_starting_ = source_[at_ - 1] == '\n';
    for (size_t end = source_.find("{%", at_); end != std::string::npos;
         end = source_.find("{%", end + 1)) {
      const char sign = end + 2 < source_.size() ? source_[end + 2] : ' ';
      const size_t close = word(end + 2 + (sign == '-' || sign == '+' ? 1 : 0), "endraw");
      if (close == 0) continue;
      AddText(at_, StrippedEnd(at_, end, sign, true));
      at_ = close;
      if (SkipClose("%}")) return true;
    }
    Fail(tag, "{% raw %} has no end");
  }

  void LexTag(size_t tag, std::string_view close, Kind end) {
    std::string open;  // brackets
    while (true) {
      at_ += LeadingSpace(Rest(at_));
      if (at_ >= source_.size()) Fail(tag, StrCat("the tag has no end: expected ", close));
      const size_t begin = at_;
      if (open.empty() && SkipClose(close)) {
        Add(end, std::string(close), begin);
        return;
      }
      const char c = source_[at_];
      if (c == '"' || c == '\'') {
        LexString();
      } else if (IsDigit(c)) {
        LexNumber();
      } else if (IsNameByte(c)) {
        while (at_ < source_.size() && IsNameByte(source_[at_])) ++at_;
        Add(Kind::kName, source_.substr(begin, at_ - begin), begin);
      } else {
        LexOperator(&open);
      }
    }
  }

  void LexOperator(std::string* open) {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* found = std::ranges::find_if(
        kOperators, [&](std::string_view o) { return Rest(at_).starts_with(o); });
    if (found == kOperators.end()) Fail(at_, StrCat("unexpected '", source_[at_], "'"));
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') open->push_back(c);
    if (c == ')' || c == ']' || c == '}') {
      const char wanted = c == ')' ? '(' : (c == ']' ? '[' : '{');
      if (open->empty() || open->back() != wanted) Fail(at_, StrCat("unexpected '", c, "'"));
      open->pop_back();
    }
    Add(Kind::kOperator, std::string(*found), at_);
    at_ += found->size();
  }

  void LexNumber() {
    const size_t begin = at_;
    std::string digits;
    const auto take = [&] {
      while (at_ < source_.size() && (IsDigit(source_[at_]) || source_[at_] == '_')) {
        if (source_[at_] != '_') digits += source_[at_];
        ++at_;
      }
    };
    const auto digit_at = [&](size_t at) { return at < source_.size() && IsDigit(source_[at]); };
    take();
    bool is_float = false;
    if (at_ < source_.size() && source_[at_] == '.' && digit_at(at_ + 1)) {
      is_float = true;
      digits += source_[at_++];
      take();
    }
    if (at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      const size_t sign = at_ + 1;
      const bool has_sign = sign < source_.size() && (source_[sign] == '+' || source_[sign] == '-');
      if (digit_at(sign + (has_sign ? 1 : 0))) {
        is_float = true;
        digits += source_.substr(at_, has_sign ? 2 : 1);
        at_ += has_sign ? 2 : 1;
        take();
      }
    }
    if (at_ < source_.size() && IsNameByte(source_[at_])) Fail(begin, "no number of this form");
    Add(is_float ? Kind::kFloat : Kind::kInteger, digits, begin);
  }

  void LexString() {
    const size_t begin = at_;
    const char quote = source_[at_++];
    std::string text;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\' && at_ + 1 < source_.size()) {
        ++at_;
        Unescape(&text);
      } else {
        text += source_[at_++];
      }
    }
    if (at_ >= source_.size()) Fail(begin, "the string has no end");
    ++at_;
    Add(Kind::kString, std::move(text), begin);
  }

  // Python's escapes; what is none keeps its backslash.
  void Unescape(std::string* text) {
    static constexpr std::string_view kNames = "nrtbfav\\'\"";
    static constexpr std::string_view kValues = "\n\r\t\b\f\a\v\\'\"";
    const size_t begin = at_ - 1;
    const char c = source_[at_++];
    const size_t name = kNames.find(c);
    if (name != std::string_view::npos) {
      *text += kValues[name];
    } else if (c == '\n') {  // continues the line
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
      AppendCode(begin, digits, text);
    } else if (c >= '0' && c <= '7') {
      uint32_t code = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < source_.size() && source_[at_] >= '0' && source_[at_] <= '7';
           ++i) {
        code = code * 8 + static_cast<uint32_t>(source_[at_++] - '0');
      }
      AppendUtf8(code, text);
    } else {
      *text += {'\\', c};
    }
  }

  void AppendCode(size_t begin, size_t digits, std::string* text) {
    uint32_t code = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char c = at_ < source_.size() ? source_[at_] : ' ';
      const size_t digit = std::string_view("0123456789abcdef")
                               .find(static_cast<char>(c >= 'A' && c <= 'F' ? c + 32 : c));
      if (digit == std::string_view::npos) Fail(begin, "an escape lacks digits");
      code = code * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) Fail(begin, "no code point");
    AppendUtf8(code, text);
  }

  const std::string& source_;
  size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<TemplateToken> tokens_;
};

}  // namespace

TemplateError::TemplateError(std::string_view source, size_t offset, std::string_view problem)
    : UsageError(Message(source, offset, problem)) {}

std::string NormalizeTemplate(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<TemplateToken> LexTemplate(const std::string& source) { return Lexer(source).Run(); }

bool IsPythonSpace(uint32_t code_point) {
  return (code_point >= 0x09 && code_point <= 0x0D) || (code_point >= 0x1C && code_point <= 0x20) ||
         code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
         code_point == 0x3000;
}

size_t LeadingSpace(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = NextUtf8(text.substr(at));
    if (step.state != Utf8State::kValid || !IsPythonSpace(CodePoint(text.substr(at), step.size))) {
      break;
    }
    at += step.size;
  }
  return at;
}

size_t TrailingSpace(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (LeadingSpace(text.substr(begin, end - begin)) != end - begin) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace thinwire::text
