#include "thinwire/text/template_parser.h"

#include <initializer_list>

#include "thinwire/text/template_expression_parser.h"

namespace thinwire::text {
namespace {

using Kind = Statement::Kind;
using TokenKind = TemplateToken::Kind;

class Parser {
 public:
  explicit Parser(const std::string& source) : read_(source, LexTemplate(source)) {}

  Block Run() { return ParseBlock({}); }

 private:
  // Up to a tag with one of these names, which is left to be read; without names to the end.
  Block ParseBlock(std::initializer_list<std::string_view> ends) {
    const ExpressionParser::Nesting nesting(&read_);
    Block block;
    while (true) {
      const TemplateToken token = read_.Peek();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() == 0) return block;
        read_.Fail(StrCat("the template ends before {% ", *(ends.end() - 1), " %}"));
      }
      if (token.kind == TokenKind::kText) {
        block.push_back(Make(Kind::kText, read_.Next()));
      } else if (token.kind == TokenKind::kPrintBegin) {
        block.push_back(Make(Kind::kPrint, read_.Next()));
        block.back().value = read_.ParseTuple();
        read_.Expect(TokenKind::kPrintEnd, "}}");
      } else {
        read_.Expect(TokenKind::kBlockBegin, "a tag");
        for (const std::string_view end : ends) {
          if (read_.IsName(end)) return block;
        }
        block.push_back(ParseStatement());
      }
    }
  }

  static Statement Make(Kind kind, const TemplateToken& token) {
    Statement statement;
    statement.kind = kind;
    statement.offset = token.offset;
    if (kind == Kind::kText) statement.text = token.text;
    return statement;
  }

  void EndTag() { read_.Expect(TokenKind::kBlockEnd, "%}"); }
  void EndTag(std::string_view name) {
    read_.ExpectName(name);
    EndTag();
  }

  Statement ParseStatement() {
    const TemplateToken token = read_.Next();
    const std::string& name = token.text;
    if (name == "if") return ParseIf(token);
    if (name == "for") return ParseFor(token);
    if (name == "set") return ParseSet(token);
    if (name == "macro") return ParseMacro(token);
    if (name == "call") return ParseCall(token);
    if (name == "filter") return ParseFilter(token);
    if (name == "with") return ParseWith(token);
    if (name == "generation") {
      Statement group = Make(Kind::kGroup, token);
      EndTag();
      group.body = ParseBlock({"endgeneration"});
      EndTag("endgeneration");
      return group;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) read_.FailAt(token.offset, StrCat("'", name, "' outside of a loop"));
      EndTag();
      return Make(name == "break" ? Kind::kBreak : Kind::kContinue, token);
    }
    for (const std::string_view other : {"include", "import", "from", "extends", "block",
                                         "autoescape", "do", "print", "debug", "trans"}) {
      if (name == other) read_.FailAt(token.offset, StrCat("'", name, "' is not supported"));
    }
    read_.FailAt(token.offset, StrCat("unknown tag '", name, "'"));
  }

  // After "if" or "elif".
  Statement ParseIf(const TemplateToken& token) {
    Statement statement = Make(Kind::kIf, token);
    statement.value = read_.ParseTuple();
    EndTag();
    statement.body = ParseBlock({"elif", "else", "endif"});
    const TemplateToken next = read_.Next();
    if (next.text == "elif") {
      const ExpressionParser::Nesting nesting(&read_);
      statement.otherwise.push_back(ParseIf(next));
      return statement;
    }
    EndTag();
    if (next.text == "else") {
      statement.otherwise = ParseBlock({"endif"});
      EndTag("endif");
    }
    return statement;
  }

  Statement ParseFor(const TemplateToken& token) {
    Statement statement = Make(Kind::kFor, token);
    statement.targets = ParseTargets();
    read_.ExpectName("in");
    statement.value = read_.ParseTuple(false);
    if (read_.SkipName("if")) statement.condition = read_.ParseExpression();
    if (read_.IsName("recursive")) read_.Fail("recursive loops are not supported");
    EndTag();
    ++loops_;
    statement.body = ParseBlock({"else", "endfor"});
    --loops_;
    const bool otherwise = read_.Next().text == "else";
    EndTag();
    if (otherwise) {
      statement.otherwise = ParseBlock({"endfor"});
      EndTag("endfor");
    }
    return statement;
  }

  // a, b or (a, b)
  std::vector<std::string> ParseTargets() {
    const bool parentheses = read_.SkipOperator("(");
    std::vector<std::string> targets = {read_.ExpectIdentifier()};
    while (read_.SkipOperator(",")) {
      if (read_.Peek().kind != TokenKind::kName || read_.IsName("in")) break;
      targets.push_back(read_.ExpectIdentifier());
    }
    if (parentheses) read_.ExpectOperator(")");
    return targets;
  }

  Statement ParseSet(const TemplateToken& token) {
    Statement statement = Make(Kind::kSet, token);
    if (read_.IsOperator(".", 1)) {
      statement.text = read_.ExpectIdentifier();
      read_.ExpectOperator(".");
      statement.targets = {read_.ExpectIdentifier()};
    } else {
      statement.targets = ParseTargets();
    }
    if (read_.SkipOperator("=")) {
      statement.value = read_.ParseTuple();
      EndTag();
      return statement;
    }
    statement.kind = Kind::kSetBlock;
    if (statement.targets.size() > 1) read_.Fail("a block is set to one name");
    statement.value = read_.ParseFilters(nullptr, false);
    EndTag();
    statement.body = ParseBlock({"endset"});
    EndTag("endset");
    return statement;
  }

  void ParseParameters(Statement* statement) {
    read_.ExpectOperator("(");
    while (!read_.IsOperator(")")) {
      if (!statement->targets.empty()) read_.ExpectOperator(",");
      statement->targets.push_back(read_.ExpectIdentifier());
      if (read_.SkipOperator("=")) {
        statement->defaults.push_back(read_.ParseExpression());
      } else if (!statement->defaults.empty()) {
        read_.Fail("a parameter without a default after one with");
      }
    }
    read_.ExpectOperator(")");
  }

  Statement ParseMacro(const TemplateToken& token) {
    Statement statement = Make(Kind::kMacro, token);
    statement.text = read_.ExpectIdentifier();
    ParseParameters(&statement);
    EndTag();
    ParseBodyOutsideOfLoops(&statement, "endmacro");
    if (read_.Peek().kind == TokenKind::kName) read_.Next();  // the macro's name again
    EndTag();
    return statement;
  }

  Statement ParseCall(const TemplateToken& token) {
    Statement statement = Make(Kind::kCallBlock, token);
    if (read_.IsOperator("(")) ParseParameters(&statement);
    statement.value = read_.ParseExpression();
    if (statement.value->kind != Expression::Kind::kCall) read_.Fail("expected a call");
    EndTag();
    ParseBodyOutsideOfLoops(&statement, "endcall");
    EndTag();
    return statement;
  }

  void ParseBodyOutsideOfLoops(Statement* statement, std::string_view end) {
    const int loops = loops_;
    loops_ = 0;
    statement->body = ParseBlock({end});
    loops_ = loops;
    read_.ExpectName(end);
  }

  Statement ParseFilter(const TemplateToken& token) {
    Statement statement = Make(Kind::kFilterBlock, token);
    statement.value = read_.ParseFilters(nullptr, true);
    EndTag();
    statement.body = ParseBlock({"endfilter"});
    EndTag("endfilter");
    return statement;
  }

  Statement ParseWith(const TemplateToken& token) {
    Statement statement = Make(Kind::kWith, token);
    while (read_.Peek().kind == TokenKind::kName) {
      statement.targets.push_back(read_.ExpectIdentifier());
      read_.ExpectOperator("=");
      statement.defaults.push_back(read_.ParseExpression());
      if (!read_.SkipOperator(",")) break;
    }
    EndTag();
    statement.body = ParseBlock({"endwith"});
    EndTag("endwith");
    return statement;
  }

  ExpressionParser read_;
  int loops_ = 0;
};

}  // namespace

Block ParseTemplate(const std::string& source) { return Parser(source).Run(); }

}  // namespace thinwire::text
