// Expressions of a template, by recursive descent in the order of Jinja's own parser.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/text/template_ast.h"
#include "thinwire/text/template_lexer.h"

namespace thinwire::text {

class ExpressionParser {
 public:
  ExpressionParser(const std::string& source, std::vector<TemplateToken> tokens)
      : source_(source), tokens_(std::move(tokens)) {}

  const TemplateToken& Peek(size_t ahead = 0) const;
  TemplateToken Next() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
  bool IsName(std::string_view name, size_t ahead = 0) const;
  bool IsOperator(std::string_view text, size_t ahead = 0) const;
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view text);
  void Expect(TemplateToken::Kind kind, std::string_view what);
  void ExpectName(std::string_view name);
  void ExpectOperator(std::string_view text);
  std::string ExpectIdentifier();
  [[noreturn]] void Fail(std::string_view problem) const { FailAt(Peek().offset, problem); }
  [[noreturn]] void FailAt(size_t offset, std::string_view problem) const {
    throw TemplateError(source_, offset, problem);
  }

  ExpressionPtr ParseExpression(bool conditional = true);
  // One expression, or several with commas as a tuple.
  ExpressionPtr ParseTuple(bool conditional = true);
  // Filters with "|" between them, the first of them without; `input` may be null.
  ExpressionPtr ParseFilters(ExpressionPtr input, bool starts_inline);

  // Guards the stack: every level of nesting holds one.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser* parser);
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  ExpressionPtr Make(Expression::Kind kind, size_t offset) const;
  ExpressionPtr Join(Expression::Kind kind, size_t offset, ExpressionPtr left,
                     ExpressionPtr right) const;
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseCompare();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcat();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseNumber();
  ExpressionPtr ParseParentheses();
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  ExpressionPtr ParsePostfix(ExpressionPtr node);
  ExpressionPtr ParseSubscript(ExpressionPtr node);
  ExpressionPtr ParsePostfixAndFilters(ExpressionPtr node);
  ExpressionPtr ParseTest(ExpressionPtr node);
  void ParseArguments(Expression* call);
  ExpressionPtr ParseArithmetic(std::initializer_list<std::string_view> operators,
                                ExpressionPtr (ExpressionParser::*operand)());

  const std::string& source_;
  std::vector<TemplateToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace thinwire::text
