#include <algorithm>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/nearest.h"
#include "thinwire/text/template_arguments.h"
#include "thinwire/text/template_filters.h"
#include "thinwire/text/template_methods.h"
#include "thinwire/text/template_operators.h"

namespace thinwire::text {
namespace {

using Test = bool (*)(const Value& input, const BoundArguments& arguments);

struct NamedTest {
  std::string_view name;
  size_t arguments;  // exactly
  Test test;
};

bool HasRemainder(const Value& value, int64_t remainder) {
  return Equal(Arithmetic("%", value, Value(int64_t{2})), Value(remainder));
}

template <char op>
bool Order(const Value& a, const BoundArguments& arguments) {
  constexpr std::string_view kName =
      op == '<' ? "<" : (op == '>' ? ">" : (op == 'l' ? "<=" : ">="));
  return CompareBy(kName, a, *arguments[0]);
}
bool Eq(const Value& a, const BoundArguments& arguments) { return Equal(a, *arguments[0]); }
bool Ne(const Value& a, const BoundArguments& arguments) { return !Equal(a, *arguments[0]); }

// Of objects Python compares identities; numbers, strings and None stand for themselves here.
bool SameAs(const Value& a, const BoundArguments& arguments) {
  const Value& b = *arguments[0];
  return a.data().index() == b.data().index() && Equal(a, b);
}

bool IsCased(const Value& value, bool upper) {
  const std::string text = ToText(value);
  const std::string lower = Lower(text);
  const std::string raised = Upper(text);
  return lower != raised && text == (upper ? raised : lower);
}

bool IsIterable(const Value& value) {
  return value.IsUndefined() || value.String() != nullptr || value.Items() != nullptr ||
         value.Mapping() != nullptr;
}

const NamedTest kTests[] = {
    {"defined", 0, [](const Value& v, const BoundArguments&) { return !v.IsUndefined(); }},
    {"undefined", 0, [](const Value& v, const BoundArguments&) { return v.IsUndefined(); }},
    {"none", 0, [](const Value& v, const BoundArguments&) { return v.IsNone(); }},
    {"string", 0, [](const Value& v, const BoundArguments&) { return v.String() != nullptr; }},
    {"number", 0, [](const Value& v, const BoundArguments&) { return v.IsNumber(); }},
    {"integer", 0, [](const Value& v, const BoundArguments&) { return v.IsInteger(); }},
    {"float", 0, [](const Value& v, const BoundArguments&) { return v.IsFloat(); }},
    {"boolean", 0, [](const Value& v, const BoundArguments&) { return v.IsBool(); }},
    {"true", 0, [](const Value& v, const BoundArguments&) { return v.IsBool() && Truth(v); }},
    {"false", 0, [](const Value& v, const BoundArguments&) { return v.IsBool() && !Truth(v); }},
    {"mapping", 0, [](const Value& v, const BoundArguments&) { return v.Mapping() != nullptr; }},
    {"iterable", 0, [](const Value& v, const BoundArguments&) { return IsIterable(v); }},
    {"sequence", 0,
     [](const Value& v, const BoundArguments&) {
       return IsIterable(v) &&
              (v.Items() == nullptr || v.Items()->kind != Sequence::Kind::kGenerator);
     }},
    {"callable", 0, [](const Value& v, const BoundArguments&) { return v.Function() != nullptr; }},
    {"odd", 0, [](const Value& v, const BoundArguments&) { return HasRemainder(v, 1); }},
    {"even", 0, [](const Value& v, const BoundArguments&) { return HasRemainder(v, 0); }},
    {"divisibleby", 1,
     [](const Value& v, const BoundArguments& a) {
       return Equal(Arithmetic("%", v, *a[0]), Value(int64_t{0}));
     }},
    {"lower", 0, [](const Value& v, const BoundArguments&) { return IsCased(v, false); }},
    {"upper", 0, [](const Value& v, const BoundArguments&) { return IsCased(v, true); }},
    {"in", 1, [](const Value& v, const BoundArguments& a) { return Contains(*a[0], v); }},
    {"sameas", 1, SameAs},
    {"eq", 1, Eq},
    {"equalto", 1, Eq},
    {"ne", 1, Ne},
    {"lt", 1, Order<'<'>},
    {"lessthan", 1, Order<'<'>},
    {"le", 1, Order<'l'>},
    {"gt", 1, Order<'>'>},
    {"greaterthan", 1, Order<'>'>},
    {"ge", 1, Order<'g'>},
    {"filter", 0,
     [](const Value& v, const BoundArguments&) { return HasFilter(v.Text("filter")); }},
    {"test", 0, [](const Value& v, const BoundArguments&) { return HasTest(v.Text("test")); }},
};

const NamedTest* FindTest(std::string_view name) {
  const auto* test = std::ranges::find(kTests, name, &NamedTest::name);
  return test == std::end(kTests) ? nullptr : test;
}

}  // namespace

bool HasTest(std::string_view name) { return FindTest(name) != nullptr; }

std::string UnknownTest(std::string_view name) {
  std::vector<std::string> known;
  for (const NamedTest& test : kTests) known.emplace_back(test.name);
  return StrCat("unknown test '", name, "'", DidYouMean(name, known));
}

bool ApplyTest(const std::string& name, const Value& input, const Arguments& arguments) {
  const NamedTest* test = FindTest(name);
  if (test == nullptr) throw TemplateProblem(UnknownTest(name));
  if (test->arguments == 0) return test->test(input, BoundArguments(name, arguments, {}));
  return test->test(input, BoundArguments(name, arguments, {"other"}, 1));
}

}  // namespace thinwire::text
