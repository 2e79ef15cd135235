#include "thinwire/text/template_evaluator.h"

#include <algorithm>
#include <exception>

#include "thinwire/base/error.h"
#include "thinwire/text/template_filters.h"
#include "thinwire/text/template_lexer.h"
#include "thinwire/text/template_operators.h"

namespace thinwire::text {
namespace {

using Kind = Expression::Kind;

}  // namespace

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [own, value] : scope->variables) {
      if (own == name) return &value;
    }
  }
  return nullptr;
}

void Scope::Set(const std::string& name, Value value) {
  for (auto& [own, old] : variables) {
    if (own == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

std::string TemplateEvaluator::Run(const Block& block, const std::shared_ptr<Scope>& globals) {
  std::string output;
  output_ = &output;
  RunBlock(block, globals);
  return output;
}

void TemplateEvaluator::Step() {
  if (++steps_ > limits_.steps) throw TemplateProblem("the template takes too many steps");
}

void TemplateEvaluator::Write(std::string_view text) {
  if (output_->size() + text.size() > limits_.output_bytes) {
    throw TemplateProblem(StrCat("the output exceeds ", limits_.output_bytes, " bytes"));
  }
  output_->append(text);
}

TemplateEvaluator::Flow TemplateEvaluator::RunBlock(const Block& block,
                                                    const std::shared_ptr<Scope>& scope) {
  for (const Statement& statement : block) {
    try {
      Step();
      const Flow flow = RunStatement(statement, scope);
      if (flow != Flow::kOn) return flow;
    } catch (const TemplateProblem& problem) {
      throw TemplateError(source_, statement.offset, problem.what());
    }
  }
  return Flow::kOn;
}

TemplateEvaluator::Flow TemplateEvaluator::RunStatement(const Statement& statement,
                                                        const std::shared_ptr<Scope>& scope) {
  switch (statement.kind) {
    case Statement::Kind::kText:
      Write(statement.text);
      break;
    case Statement::Kind::kPrint:
      Write(ToText(Evaluate(*statement.value, *scope)));
      break;
    case Statement::Kind::kIf: {
      const bool holds = Truth(Evaluate(*statement.value, *scope));
      return RunBlock(holds ? statement.body : statement.otherwise, scope);
    }
    case Statement::Kind::kFor:
      return RunFor(statement, scope);
    case Statement::Kind::kSet:
    case Statement::Kind::kSetBlock:
      RunSet(statement, scope);
      break;
    case Statement::Kind::kMacro:
      scope->Set(statement.text, MakeMacro(statement, scope));
      break;
    case Statement::Kind::kCallBlock:
      RunCallBlock(statement, scope);
      break;
    case Statement::Kind::kFilterBlock: {
      const Value body(Capture(statement.body, scope));
      Write(ToText(EvaluateFilter(*statement.value, *scope, &body)));
      break;
    }
    case Statement::Kind::kWith:
      RunWith(statement, scope);
      break;
    case Statement::Kind::kGroup:
      return RunBlock(statement.body, std::make_shared<Scope>(Scope{scope, {}}));
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

void TemplateEvaluator::AssignTargets(const std::vector<std::string>& targets, const Value& value,
                                      Scope* scope) {
  if (targets.size() == 1) {
    scope->Set(targets[0], value);
    return;
  }
  const std::vector<Value> parts = Iterate(value);
  if (parts.size() != targets.size()) {
    throw TemplateProblem(StrCat(targets.size(), " names for ", parts.size(), " values"));
  }
  for (size_t i = 0; i < parts.size(); ++i) scope->Set(targets[i], parts[i]);
}

TemplateEvaluator::Flow TemplateEvaluator::RunFor(const Statement& statement,
                                                  const std::shared_ptr<Scope>& scope) {
  const Value iterated = Evaluate(*statement.value, *scope);
  std::vector<Value> items = Iterate(iterated);
  if (statement.condition) {
    const auto filter_scope = std::make_shared<Scope>(Scope{scope, {}});
    std::erase_if(items, [&](const Value& item) {
      AssignTargets(statement.targets, item, filter_scope.get());
      return !Truth(Evaluate(*statement.condition, *filter_scope));
    });
  }
  const auto last_changed = std::make_shared<std::vector<Value>>();
  for (size_t i = 0; i < items.size(); ++i) {
    Step();
    const auto own = std::make_shared<Scope>(Scope{scope, {}});
    own->Set("loop", LoopVariable(items, i, last_changed));
    AssignTargets(statement.targets, items[i], own.get());
    if (RunBlock(statement.body, own) == Flow::kBreak) break;
  }
  if (items.empty()) {
    return RunBlock(statement.otherwise, std::make_shared<Scope>(Scope{scope, {}}));
  }
  return Flow::kOn;
}

Value TemplateEvaluator::LoopVariable(const std::vector<Value>& items, size_t index,
                                      const std::shared_ptr<std::vector<Value>>& last_changed) {
  const auto count = static_cast<int64_t>(items.size());
  const auto at = static_cast<int64_t>(index);
  Dict loop;
  const auto add = [&](const char* name, Value value) {
    loop.items.emplace_back(Value(name), std::move(value));
  };
  add("index0", Value(at));
  add("index", Value(at + 1));
  add("first", Value(at == 0));
  add("last", Value(at + 1 == count));
  add("length", Value(count));
  add("revindex", Value(count - at));
  add("revindex0", Value(count - at - 1));
  add("previtem", index > 0 ? items[index - 1] : Value::MakeUndefined("there is no previous item"));
  add("nextitem",
      index + 1 < items.size() ? items[index + 1] : Value::MakeUndefined("there is no next item"));
  add("cycle", Value(Callable{"cycle", [index](const Arguments& arguments) {
                                const auto& all = arguments.positional;
                                if (all.empty())
                                  throw TemplateProblem("no items for cycling given");
                                return all[index % all.size()];
                              }}));
  add("changed", Value(Callable{"changed", [last_changed](const Arguments& arguments) {
                                  const bool same =
                                      !last_changed->empty() &&
                                      std::ranges::equal((*last_changed)[0].Items()->items,
                                                         arguments.positional, Equal);
                                  if (!same) *last_changed = {Value::List(arguments.positional)};
                                  return Value(!same);
                                }}));
  return Value(std::move(loop));
}

void TemplateEvaluator::RunSet(const Statement& statement, const std::shared_ptr<Scope>& scope) {
  Value value;
  if (statement.kind == Statement::Kind::kSet) {
    value = Evaluate(*statement.value, *scope);
  } else {
    value = Value(Capture(statement.body, std::make_shared<Scope>(Scope{scope, {}})));
    if (statement.value) value = EvaluateFilter(*statement.value, *scope, &value);
  }
  if (statement.text.empty()) {
    AssignTargets(statement.targets, value, scope.get());
    return;
  }
  const Value* owner = scope->Find(statement.text);
  if (owner == nullptr || owner->Space() == nullptr) {
    throw TemplateProblem(
        StrCat("cannot set ", statement.text, ".", statement.targets[0], ": no namespace"));
  }
  owner->Space()->attributes.Set(Value(statement.targets[0]), std::move(value));
}

void TemplateEvaluator::RunWith(const Statement& statement, const std::shared_ptr<Scope>& scope) {
  const auto own = std::make_shared<Scope>(Scope{scope, {}});
  for (size_t i = 0; i < statement.targets.size(); ++i) {
    own->Set(statement.targets[i], Evaluate(*statement.defaults[i], *scope));
  }
  if (RunBlock(statement.body, own) != Flow::kOn) {
    throw TemplateProblem("break and continue inside of 'with' are not supported");
  }
}

// What a block writes, as a string.
std::string TemplateEvaluator::Capture(const Block& block, const std::shared_ptr<Scope>& scope) {
  std::string captured;
  std::string* const outer = std::exchange(output_, &captured);
  try {
    if (RunBlock(block, scope) != Flow::kOn) {
      throw TemplateProblem("break and continue inside of a captured block are not supported");
    }
  } catch (...) {
    output_ = outer;
    throw;
  }
  output_ = outer;
  return captured;
}

Value TemplateEvaluator::MakeMacro(const Statement& statement,
                                   const std::shared_ptr<Scope>& scope) {
  // Weak: the scope holds the macro.
  const std::weak_ptr<Scope> around = scope;
  return Value(Callable{statement.text, [this, &statement, around](const Arguments& arguments) {
                          const std::shared_ptr<Scope> alive = around.lock();
                          if (!alive) throw TemplateProblem("the macro's surroundings are gone");
                          return CallMacro(statement, alive, arguments);
                        }});
}

Value TemplateEvaluator::CallMacro(const Statement& macro, const std::shared_ptr<Scope>& scope,
                                   const Arguments& arguments) {
  if (depth_ >= limits_.depth) throw TemplateProblem("macros call each other too deeply");
  const auto own = std::make_shared<Scope>(Scope{scope, {}});
  const auto& names = macro.targets;
  if (arguments.positional.size() > names.size()) {
    throw TemplateProblem(StrCat("macro '", macro.text, "' takes ", names.size(),
                                 " arguments, not ", arguments.positional.size()));
  }
  own->Set("caller", Value::MakeUndefined("no caller defined"));
  for (size_t i = 0; i < arguments.positional.size(); ++i)
    own->Set(names[i], arguments.positional[i]);
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::ranges::find(names, name) - names.begin();
    const bool taken = place < static_cast<ptrdiff_t>(arguments.positional.size());
    if (name != "caller" && (taken || place == static_cast<ptrdiff_t>(names.size()))) {
      throw TemplateProblem(StrCat("macro '", macro.text, "' takes no argument '", name, "'"));
    }
    own->Set(name, value);
  }
  const size_t first_default = names.size() - macro.defaults.size();
  for (size_t i = arguments.positional.size(); i < names.size(); ++i) {
    const bool given = std::ranges::any_of(
        arguments.named, [&](const auto& named) { return named.first == names[i]; });
    if (given) continue;
    own->Set(names[i], i >= first_default ? Evaluate(*macro.defaults[i - first_default], *own)
                                          : Value::MakeUndefined(StrCat("parameter '", names[i],
                                                                        "' was not given")));
  }
  ++depth_;
  const auto leave = [this](int*) { --depth_; };
  const std::unique_ptr<int, decltype(leave)> guard(&depth_, leave);
  return Value(Capture(macro.body, own));
}

void TemplateEvaluator::RunCallBlock(const Statement& statement,
                                     const std::shared_ptr<Scope>& scope) {
  const Value caller = MakeMacro(statement, scope);
  Write(ToText(EvaluateCall(*statement.value, *scope, &caller)));
}

Value TemplateEvaluator::Evaluate(const Expression& expression, Scope& scope) {
  try {
    Step();
    return EvaluateKind(expression, scope);
  } catch (const TemplateProblem& problem) {
    throw TemplateError(source_, expression.offset, problem.what());
  }
}

std::vector<Value> TemplateEvaluator::EvaluateAll(const Expression& expression, Scope& scope) {
  std::vector<Value> values;
  for (const ExpressionPtr& operand : expression.operands) {
    values.push_back(Evaluate(*operand, scope));
  }
  return values;
}

Value TemplateEvaluator::EvaluateKind(const Expression& expression, Scope& scope) {
  const auto operand = [&](size_t i) { return Evaluate(*expression.operands[i], scope); };
  switch (expression.kind) {
    case Kind::kConstant:
      return expression.value;
    case Kind::kName: {
      const Value* found = scope.Find(expression.text);
      if (found != nullptr) return *found;
      return Value::MakeUndefined(StrCat("'", expression.text, "' is undefined"));
    }
    case Kind::kList:
      return Value::List(EvaluateAll(expression, scope));
    case Kind::kTuple:
      return Value::List(EvaluateAll(expression, scope), Sequence::Kind::kTuple);
    case Kind::kDict:
      return EvaluateDict(expression, scope);
    case Kind::kAttribute:
      return AttributeOf(operand(0), expression.text);
    case Kind::kItem: {
      const Value object = operand(0);
      return ItemOf(object, operand(1));
    }
    case Kind::kSlice:
      return EvaluateSlice(expression, scope);
    case Kind::kCall:
      return EvaluateCall(expression, scope, nullptr);
    case Kind::kFilter:
      return EvaluateFilter(expression, scope, nullptr);
    case Kind::kTest: {
      const Value input = operand(0);
      return Value(ApplyTest(expression.text, input, EvaluateArguments(expression, scope)));
    }
    case Kind::kNot:
      return Value(!Truth(operand(0)));
    case Kind::kNegative:
      return Negative(operand(0));
    case Kind::kPositive:
      return Arithmetic("+", Value(int64_t{0}), operand(0));
    case Kind::kArithmetic: {
      const Value left = operand(0);
      return Arithmetic(expression.text, left, operand(1));
    }
    case Kind::kConcat: {
      std::string text;
      for (const Value& value : EvaluateAll(expression, scope)) text += ToText(value);
      CheckSize(text.size());
      return Value(std::move(text));
    }
    case Kind::kCompare:
      return EvaluateCompare(expression, scope);
    case Kind::kAnd: {
      Value left = operand(0);
      return Truth(left) ? operand(1) : left;
    }
    case Kind::kOr: {
      Value left = operand(0);
      return Truth(left) ? left : operand(1);
    }
    case Kind::kConditional:
      return EvaluateConditional(expression, scope);
  }
  throw TemplateProblem("an unknown expression");
}

Value TemplateEvaluator::EvaluateDict(const Expression& expression, Scope& scope) {
  Dict dict;
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    const Value key = Evaluate(*expression.operands[i], scope);
    dict.Set(key, Evaluate(*expression.operands[i + 1], scope));
  }
  return Value(std::move(dict));
}

Value TemplateEvaluator::EvaluateSlice(const Expression& expression, Scope& scope) {
  std::vector<Value> values;
  for (const ExpressionPtr& operand : expression.operands) {
    values.push_back(operand ? Evaluate(*operand, scope) : Value());
  }
  return SliceOf(values[0], &values[1], &values[2], &values[3]);
}

Value TemplateEvaluator::EvaluateCompare(const Expression& expression, Scope& scope) {
  Value left = Evaluate(*expression.operands[0], scope);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = Evaluate(*expression.operands[i + 1], scope);
    if (!CompareBy(expression.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value TemplateEvaluator::EvaluateConditional(const Expression& expression, Scope& scope) {
  if (Truth(Evaluate(*expression.operands[1], scope))) {
    return Evaluate(*expression.operands[0], scope);
  }
  if (expression.operands[2]) return Evaluate(*expression.operands[2], scope);
  return Value::MakeUndefined(
      "the inline if-expression evaluated to false and no else section was defined");
}

Arguments TemplateEvaluator::EvaluateArguments(const Expression& expression, Scope& scope) {
  Arguments arguments;
  for (size_t i = 1; i < expression.operands.size(); ++i) {
    arguments.positional.push_back(Evaluate(*expression.operands[i], scope));
  }
  for (const auto& [name, value] : expression.named) {
    arguments.named.emplace_back(name, Evaluate(*value, scope));
  }
  return arguments;
}

Value TemplateEvaluator::EvaluateCall(const Expression& call, Scope& scope, const Value* caller) {
  const Value function = Evaluate(*call.operands[0], scope);
  Arguments arguments = EvaluateArguments(call, scope);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  if (function.IsUndefined()) {
    throw TemplateProblem(*std::get<Value::Undefined>(function.data()).reason);
  }
  if (function.Function() == nullptr) {
    throw TemplateProblem(StrCat(function.KindName(), " is not callable"));
  }
  return function.Function()->call(arguments);
}

Value TemplateEvaluator::EvaluateFilter(const Expression& filter, Scope& scope,
                                        const Value* innermost) {
  const ExpressionPtr& inner = filter.operands[0];
  Value input;
  if (!inner) {
    input = *innermost;
  } else if (innermost != nullptr && inner->kind == Kind::kFilter) {
    input = EvaluateFilter(*inner, scope, innermost);
  } else {
    input = Evaluate(*inner, scope);
  }
  const Arguments arguments = EvaluateArguments(filter, scope);
  try {
    return ApplyFilter(filter.text, input, arguments);
  } catch (const TemplateProblem& problem) {
    throw TemplateError(source_, filter.offset, problem.what());
  }
}

}  // namespace thinwire::text
