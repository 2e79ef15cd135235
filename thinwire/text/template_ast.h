// A parsed template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/text/template_value.h"

namespace thinwire::text {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind : uint8_t {
    kConstant,   // value
    kName,       // text
    kList,       // operands
    kTuple,      // operands
    kDict,       // operands: key, value, key, value ...
    kAttribute,  // operands[0] . text
    kItem,       // operands[0] [ operands[1] ]
    kSlice,      // operands[0] [ operands[1] : operands[2] : operands[3] ], null where left out
    kCall,       // operands[0] ( the others, named )
    kFilter,     // operands[0] | text ( the others, named )
    kTest,       // operands[0] is text ( the others, named )
    kNot,
    kNegative,
    kPositive,
    kArithmetic,  // operands[0] text operands[1]
    kConcat,      // ~ of all operands
    kCompare,     // operands[0] operators[0] operands[1] operators[1] ...
    kAnd,
    kOr,
    kConditional,  // operands[0] if operands[1] else operands[2], which may be null
  };
  Kind kind = Kind::kConstant;
  uint32_t offset = 0;  // in the source
  std::string text;
  Value value;
  std::vector<ExpressionPtr> operands;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  std::vector<std::string> operators;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind : uint8_t {
    kText,         // text
    kPrint,        // value
    kIf,           // value, body, otherwise
    kFor,          // targets in value if condition: body, else otherwise
    kSet,          // targets, or text . targets[0], = value
    kSetBlock,     // targets[0] = body, through filters
    kMacro,        // text ( targets, the last ones with defaults ): body
    kCallBlock,    // value is a call, whose caller( targets ) is body
    kFilterBlock,  // body through filters
    kWith,         // targets = defaults: body
    kGroup,        // body; transformers' {% generation %}
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  uint32_t offset = 0;
  std::string text;
  std::vector<std::string> targets;
  std::vector<ExpressionPtr> defaults;
  ExpressionPtr value;  // filters of a block: a chain whose innermost input is null
  ExpressionPtr condition;
  Block body;
  Block otherwise;
};

}  // namespace thinwire::text
