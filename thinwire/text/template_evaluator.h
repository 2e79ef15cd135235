// Runs a parsed template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/text/template_ast.h"

namespace thinwire::text {

struct TemplateLimits {
  size_t output_bytes = size_t{4} << 20;
  int64_t steps = 5'000'000;  // expressions and statements evaluated
  int depth = 60;             // macros calling each other
};

// Names in scope. Loops and macros see what surrounds them; what they set themselves is theirs.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;

  const Value* Find(std::string_view name) const;
  void Set(const std::string& name, Value value);
};

class TemplateEvaluator {
 public:
  // Both must outlive the evaluator. `source` is what offsets refer to.
  TemplateEvaluator(const std::string& source, const TemplateLimits& limits)
      : source_(source), limits_(limits) {}

  // TemplateError.
  std::string Run(const Block& block, const std::shared_ptr<Scope>& globals);

 private:
  enum class Flow : uint8_t { kOn, kBreak, kContinue };
  class Here;

  Flow RunBlock(const Block& block, const std::shared_ptr<Scope>& scope);
  Flow RunStatement(const Statement& statement, const std::shared_ptr<Scope>& scope);
  Flow RunFor(const Statement& statement, const std::shared_ptr<Scope>& scope);
  void RunSet(const Statement& statement, const std::shared_ptr<Scope>& scope);
  void RunWith(const Statement& statement, const std::shared_ptr<Scope>& scope);
  void RunCallBlock(const Statement& statement, const std::shared_ptr<Scope>& scope);
  std::string Capture(const Block& block, const std::shared_ptr<Scope>& scope);
  void Write(std::string_view text);
  void AssignTargets(const std::vector<std::string>& targets, const Value& value, Scope* scope);
  Value LoopVariable(const std::vector<Value>& items, size_t index,
                     const std::shared_ptr<std::vector<Value>>& last_changed);
  Value MakeMacro(const Statement& statement, const std::shared_ptr<Scope>& scope);
  Value CallMacro(const Statement& macro, const std::shared_ptr<Scope>& scope,
                  const Arguments& arguments);

  Value Evaluate(const Expression& expression, Scope& scope);
  Value EvaluateKind(const Expression& expression, Scope& scope);
  Value EvaluateDict(const Expression& expression, Scope& scope);
  Value EvaluateSlice(const Expression& expression, Scope& scope);
  Value EvaluateCompare(const Expression& expression, Scope& scope);
  Value EvaluateConditional(const Expression& expression, Scope& scope);
  Value EvaluateCall(const Expression& call, Scope& scope, const Value* caller);
  Value EvaluateFilter(const Expression& filter, Scope& scope, const Value* innermost);
  std::vector<Value> EvaluateAll(const Expression& expression, Scope& scope);
  Arguments EvaluateArguments(const Expression& expression, Scope& scope);
  void Step();

  const std::string& source_;
  const TemplateLimits limits_;
  std::string* output_ = nullptr;
  int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace thinwire::text
