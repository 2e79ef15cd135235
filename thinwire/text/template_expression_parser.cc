#include "thinwire/text/template_expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "thinwire/text/template_filters.h"

namespace thinwire::text {
namespace {

using Kind = Expression::Kind;
using TokenKind = TemplateToken::Kind;

constexpr int kMaxDepth = 100;  // of nested expressions and blocks; templates in use need a dozen

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser* parser) : parser_(*parser) {
  if (parser_.depth_ >= kMaxDepth) parser_.Fail("nested too deeply");
  ++parser_.depth_;
}

const TemplateToken& ExpressionParser::Peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}
bool ExpressionParser::IsName(std::string_view name, size_t ahead) const {
  return Peek(ahead).kind == TokenKind::kName && Peek(ahead).text == name;
}
bool ExpressionParser::IsOperator(std::string_view text, size_t ahead) const {
  return Peek(ahead).kind == TokenKind::kOperator && Peek(ahead).text == text;
}
bool ExpressionParser::SkipName(std::string_view name) {
  if (!IsName(name)) return false;
  ++at_;
  return true;
}
bool ExpressionParser::SkipOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  ++at_;
  return true;
}
void ExpressionParser::Expect(TokenKind kind, std::string_view what) {
  if (Peek().kind != kind) Fail(StrCat("expected ", what, ", found '", Peek().text, "'"));
  ++at_;
}
void ExpressionParser::ExpectName(std::string_view name) {
  if (!SkipName(name)) Fail(StrCat("expected '", name, "', found '", Peek().text, "'"));
}
void ExpressionParser::ExpectOperator(std::string_view text) {
  if (!SkipOperator(text)) Fail(StrCat("expected '", text, "', found '", Peek().text, "'"));
}
std::string ExpressionParser::ExpectIdentifier() {
  if (Peek().kind != TokenKind::kName) Fail(StrCat("expected a name, found '", Peek().text, "'"));
  return Next().text;
}

ExpressionPtr ExpressionParser::Make(Kind kind, size_t offset) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->offset = static_cast<uint32_t>(offset);
  return node;
}

ExpressionPtr ExpressionParser::Join(Kind kind, size_t offset, ExpressionPtr left,
                                     ExpressionPtr right) const {
  ExpressionPtr node = Make(kind, offset);
  node->operands.push_back(std::move(left));
  node->operands.push_back(std::move(right));
  return node;
}

ExpressionPtr ExpressionParser::ParseExpression(bool conditional) {
  const Nesting nesting(this);
  ExpressionPtr node = ParseOr();
  while (conditional && IsName("if")) {
    const size_t offset = Next().offset;
    node = Join(Kind::kConditional, offset, std::move(node), ParseOr());
    node->operands.push_back(SkipName("else") ? ParseExpression() : nullptr);
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseTuple(bool conditional) {
  const size_t offset = Peek().offset;
  ExpressionPtr first = ParseExpression(conditional);
  if (!IsOperator(",")) return first;
  ExpressionPtr tuple = Make(Kind::kTuple, offset);
  tuple->operands.push_back(std::move(first));
  while (SkipOperator(",")) {
    const TemplateToken& next = Peek();
    if (next.kind == TokenKind::kBlockEnd || next.kind == TokenKind::kPrintEnd || IsOperator(")") ||
        IsName("recursive")) {
      break;
    }
    tuple->operands.push_back(ParseExpression(conditional));
  }
  return tuple;
}

ExpressionPtr ExpressionParser::ParseOr() {
  ExpressionPtr node = ParseAnd();
  while (IsName("or")) {
    const size_t offset = Next().offset;
    node = Join(Kind::kOr, offset, std::move(node), ParseAnd());
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr node = ParseNot();
  while (IsName("and")) {
    const size_t offset = Next().offset;
    node = Join(Kind::kAnd, offset, std::move(node), ParseNot());
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!IsName("not")) return ParseCompare();
  const Nesting nesting(this);
  ExpressionPtr node = Make(Kind::kNot, Next().offset);
  node->operands.push_back(ParseNot());
  return node;
}

ExpressionPtr ExpressionParser::ParseCompare() {
  ExpressionPtr first = ParseSum();
  ExpressionPtr node;
  const auto add = [&](size_t offset, std::string text) {
    if (!node) {
      node = Make(Kind::kCompare, offset);
      node->operands.push_back(std::move(first));
    }
    node->operators.push_back(std::move(text));
    node->operands.push_back(ParseSum());
  };
  static constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<", "<=", ">", ">="};
  while (true) {
    const size_t offset = Peek().offset;
    if (Peek().kind == TokenKind::kOperator && std::ranges::count(kOperators, Peek().text) > 0) {
      add(offset, Next().text);
    } else if (SkipName("in")) {
      add(offset, "in");
    } else if (IsName("not") && IsName("in", 1)) {
      at_ += 2;
      add(offset, "not in");
    } else {
      return node ? std::move(node) : std::move(first);
    }
  }
}

ExpressionPtr ExpressionParser::ParseArithmetic(std::initializer_list<std::string_view> operators,
                                                ExpressionPtr (ExpressionParser::*operand)()) {
  ExpressionPtr node = (this->*operand)();
  while (Peek().kind == TokenKind::kOperator &&
         std::ranges::count(operators, std::string_view(Peek().text)) > 0) {
    const TemplateToken token = Next();
    node = Join(Kind::kArithmetic, token.offset, std::move(node), (this->*operand)());
    node->text = token.text;
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseSum() {
  return ParseArithmetic({"+", "-"}, &ExpressionParser::ParseConcat);
}

ExpressionPtr ExpressionParser::ParseConcat() {
  ExpressionPtr node = ParseProduct();
  if (!IsOperator("~")) return node;
  ExpressionPtr concat = Make(Kind::kConcat, Peek().offset);
  concat->operands.push_back(std::move(node));
  while (SkipOperator("~")) concat->operands.push_back(ParseProduct());
  return concat;
}

ExpressionPtr ExpressionParser::ParseProduct() {
  return ParseArithmetic({"*", "/", "//", "%"}, &ExpressionParser::ParsePower);
}

ExpressionPtr ExpressionParser::ParsePower() {
  ExpressionPtr node = ParseUnary(true);
  while (IsOperator("**")) {
    const TemplateToken token = Next();
    node = Join(Kind::kArithmetic, token.offset, std::move(node), ParseUnary(true));
    node->text = token.text;
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  const Nesting nesting(this);
  ExpressionPtr node;
  if (IsOperator("-") || IsOperator("+")) {
    const TemplateToken token = Next();
    node = Make(token.text == "-" ? Kind::kNegative : Kind::kPositive, token.offset);
    node->operands.push_back(ParseUnary(false));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filters ? ParsePostfixAndFilters(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::ParseNumber() {
  const TemplateToken token = Next();
  ExpressionPtr node = Make(Kind::kConstant, token.offset);
  if (token.kind == TokenKind::kFloat) {
    node->value = Value(std::strtod(token.text.c_str(), nullptr));
    return node;
  }
  int64_t number = 0;
  const char* end = token.text.data() + token.text.size();
  if (std::from_chars(token.text.data(), end, number).ec != std::errc()) {
    FailAt(token.offset, "an integer that does not fit 64 bits");
  }
  node->value = Value(number);
  return node;
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const TemplateToken token = Peek();
  if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat) return ParseNumber();
  if (token.kind == TokenKind::kName) {
    Next();
    ExpressionPtr node = Make(Kind::kConstant, token.offset);
    const std::string& name = token.text;
    if (name == "true" || name == "True") {
      node->value = Value(true);
    } else if (name == "false" || name == "False") {
      node->value = Value(false);
    } else if (name != "none" && name != "None") {
      node->kind = Kind::kName;
      node->text = name;
    }
    return node;
  }
  if (token.kind == TokenKind::kString) {
    std::string text;
    while (Peek().kind == TokenKind::kString) text += Next().text;  // side by side they are one
    ExpressionPtr node = Make(Kind::kConstant, token.offset);
    node->value = Value(std::move(text));
    return node;
  }
  if (IsOperator("(")) return ParseParentheses();
  if (IsOperator("[")) return ParseList();
  if (IsOperator("{")) return ParseDict();
  Fail(StrCat("expected an expression, found '", token.text, "'"));
}

ExpressionPtr ExpressionParser::ParseParentheses() {
  const size_t offset = Next().offset;
  ExpressionPtr node = IsOperator(")") ? Make(Kind::kTuple, offset) : ParseTuple();
  ExpectOperator(")");
  return node;
}

ExpressionPtr ExpressionParser::ParseList() {
  ExpressionPtr node = Make(Kind::kList, Next().offset);
  while (!IsOperator("]")) {
    if (!node->operands.empty()) ExpectOperator(",");
    if (IsOperator("]")) break;
    node->operands.push_back(ParseExpression());
  }
  ExpectOperator("]");
  return node;
}

ExpressionPtr ExpressionParser::ParseDict() {
  ExpressionPtr node = Make(Kind::kDict, Next().offset);
  while (!IsOperator("}")) {
    if (!node->operands.empty()) ExpectOperator(",");
    if (IsOperator("}")) break;
    node->operands.push_back(ParseExpression());
    ExpectOperator(":");
    node->operands.push_back(ParseExpression());
  }
  ExpectOperator("}");
  return node;
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr node) {
  while (true) {
    if (IsOperator(".") || IsOperator("[")) {
      node = ParseSubscript(std::move(node));
    } else if (IsOperator("(")) {
      ExpressionPtr call = Make(Kind::kCall, Peek().offset);
      call->operands.push_back(std::move(node));
      ParseArguments(call.get());
      node = std::move(call);
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr node) {
  const TemplateToken token = Next();
  if (token.text == ".") {
    if (Peek().kind == TokenKind::kInteger) {
      return Join(Kind::kItem, token.offset, std::move(node), ParseNumber());
    }
    ExpressionPtr attribute = Make(Kind::kAttribute, Peek().offset);
    attribute->text = ExpectIdentifier();
    attribute->operands.push_back(std::move(node));
    return attribute;
  }
  ExpressionPtr first;
  if (!IsOperator(":")) {
    first = ParseTuple();
    if (SkipOperator("]"))
      return Join(Kind::kItem, token.offset, std::move(node), std::move(first));
  }
  ExpressionPtr slice = Join(Kind::kSlice, token.offset, std::move(node), std::move(first));
  while (slice->operands.size() < 4) {
    if (!SkipOperator(":")) {
      slice->operands.push_back(nullptr);
    } else {
      const bool empty = IsOperator(":") || IsOperator("]");
      slice->operands.push_back(empty ? nullptr : ParseExpression());
    }
  }
  ExpectOperator("]");
  return slice;
}

ExpressionPtr ExpressionParser::ParsePostfixAndFilters(ExpressionPtr node) {
  while (true) {
    if (IsOperator("|")) {
      node = ParseFilters(std::move(node), false);
    } else if (IsName("is")) {
      node = ParseTest(std::move(node));
    } else if (IsOperator("(")) {
      node = ParsePostfix(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr input, bool starts_inline) {
  while (starts_inline || IsOperator("|")) {
    if (!starts_inline) Next();
    starts_inline = false;
    ExpressionPtr filter = Make(Kind::kFilter, Peek().offset);
    filter->text = ExpectIdentifier();
    if (!HasFilter(filter->text)) FailAt(filter->offset, UnknownFilter(filter->text));
    filter->operands.push_back(std::move(input));
    if (IsOperator("(")) ParseArguments(filter.get());
    input = std::move(filter);
  }
  return input;
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr node) {
  Next();
  const bool negated = SkipName("not");
  ExpressionPtr test = Make(Kind::kTest, Peek().offset);
  test->text = ExpectIdentifier();
  if (!HasTest(test->text)) FailAt(test->offset, UnknownTest(test->text));
  test->operands.push_back(std::move(node));
  const TokenKind kind = Peek().kind;
  if (IsOperator("(")) {
    ParseArguments(test.get());
  } else if (kind == TokenKind::kString || kind == TokenKind::kInteger ||
             kind == TokenKind::kFloat || IsOperator("[") || IsOperator("{") ||
             (kind == TokenKind::kName && !IsName("else") && !IsName("or") && !IsName("and") &&
              !IsName("if") && !IsName("in") && !IsName("not"))) {
    if (IsName("is")) Fail("tests cannot be chained with is");
    test->operands.push_back(ParsePostfix(ParsePrimary()));
  }
  if (!negated) return test;
  ExpressionPtr negation = Make(Kind::kNot, test->offset);
  negation->operands.push_back(std::move(test));
  return negation;
}

void ExpressionParser::ParseArguments(Expression* call) {
  const Nesting nesting(this);
  ExpectOperator("(");
  for (bool first = true; !IsOperator(")"); first = false) {
    if (!first) ExpectOperator(",");
    if (IsOperator(")")) break;
    if (IsOperator("*") || IsOperator("**")) Fail("* and ** in calls are not supported");
    if (Peek().kind == TokenKind::kName && IsOperator("=", 1)) {
      const std::string name = Next().text;
      Next();
      call->named.emplace_back(name, ParseExpression());
    } else {
      if (!call->named.empty()) Fail("a positional argument after a named one");
      call->operands.push_back(ParseExpression());
    }
  }
  ExpectOperator(")");
}

}  // namespace thinwire::text
