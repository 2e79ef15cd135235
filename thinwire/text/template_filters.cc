#include "thinwire/text/template_filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/nearest.h"
#include "thinwire/text/template_arguments.h"
#include "thinwire/text/template_lexer.h"
#include "thinwire/text/template_methods.h"
#include "thinwire/text/template_operators.h"

namespace thinwire::text {
namespace {

using Generator = std::vector<Value>;

Value Generated(Generator items) {
  return Value::List(std::move(items), Sequence::Kind::kGenerator);
}

// "a.b.0" of an item: attributes and elements.
Value AttributePath(Value item, const Value& path) {
  if (path.IsInteger()) return ItemOf(item, path);
  std::string_view rest = path.Text("attribute");
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = !part.empty() && parsed.ptr == part.data() + part.size();
    item = ItemOf(item, number ? Value(index) : Value(part));
    if (dot == rest.size()) return item;
    rest.remove_prefix(dot + 1);
  }
}

Arguments Without(const Arguments& arguments, size_t positional) {
  Arguments rest = arguments;
  const size_t count = std::min(positional, rest.positional.size());
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<ptrdiff_t>(count));
  return rest;
}

Value Default(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("default", arguments, {"default_value", "boolean"});
  const bool missing = input.IsUndefined() || (bound.TruthOr(1, false) && !Truth(input));
  if (!missing) return input;
  return bound[0] == nullptr ? Value("") : *bound[0];
}

Value JoinFilter(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("join", arguments, {"d", "attribute"});
  const std::string separator = bound[0] == nullptr ? "" : ToText(*bound[0]);
  std::string text;
  bool first = true;
  for (const Value& item : Iterate(input)) {
    if (!first) text += separator;
    text += ToText(bound.HasValue(1) ? AttributePath(item, *bound[1]) : item);
    CheckSize(text.size());
    first = false;
  }
  return Value(std::move(text));
}

Value MapFilter(const Value& input, const Arguments& arguments) {
  Generator result;
  if (arguments.positional.empty()) {
    const BoundArguments bound("map", arguments, {"attribute", "default"}, 1);
    for (const Value& item : Iterate(input)) {
      Value value = AttributePath(item, *bound[0]);
      result.push_back(value.IsUndefined() && bound[1] != nullptr ? *bound[1] : std::move(value));
    }
    return Generated(std::move(result));
  }
  const std::string& name = arguments.positional[0].Text("map");
  if (!HasFilter(name)) throw TemplateProblem(UnknownFilter(name));
  const Arguments rest = Without(arguments, 1);
  for (const Value& item : Iterate(input)) result.push_back(ApplyFilter(name, item, rest));
  return Generated(std::move(result));
}

// select, reject: by a test, or by truth; selectattr, rejectattr: of an attribute.
Value Select(const Value& input, const Arguments& arguments, bool wanted, bool attribute) {
  const size_t skip = attribute ? 1 : 0;
  if (arguments.positional.size() < skip) throw TemplateProblem("selectattr: no attribute");
  const bool tested = arguments.positional.size() > skip;
  const Arguments rest = Without(arguments, skip + 1);
  Generator result;
  for (const Value& item : Iterate(input)) {
    const Value value = attribute ? AttributePath(item, arguments.positional[0]) : item;
    const bool holds =
        tested ? ApplyTest(arguments.positional[skip].Text("select"), value, rest) : Truth(value);
    if (holds == wanted) result.push_back(item);
  }
  return Generated(std::move(result));
}

// Strings regardless of case, unless told.
Value SortKey(const Value& value, bool case_sensitive) {
  if (value.String() == nullptr || case_sensitive) return value;
  return Value(Lower(*value.String()));
}

Value Sort(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = bound.TruthOr(1, false);
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : Iterate(input)) {
    const Value key = bound.HasValue(2) ? AttributePath(item, *bound[2]) : item;
    keyed.emplace_back(SortKey(key, case_sensitive), item);
  }
  const bool reverse = bound.TruthOr(0, false);
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return reverse ? Compare(b.first, a.first) < 0 : Compare(a.first, b.first) < 0;
  });
  std::vector<Value> items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return Value::List(std::move(items));
}

Value DictSort(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (input.Mapping() == nullptr) throw TemplateProblem("dictsort of what is no dictionary");
  const bool by_value = bound.TextOr(1, "key") == "value";
  auto items = input.Mapping()->items;
  const auto key = [&](const auto& item) {
    return SortKey(by_value ? item.second : item.first, bound.TruthOr(0, false));
  };
  const bool reverse = bound.TruthOr(2, false);
  std::ranges::stable_sort(items, [&](const auto& a, const auto& b) {
    return reverse ? Compare(key(b), key(a)) < 0 : Compare(key(a), key(b)) < 0;
  });
  std::vector<Value> pairs;
  for (auto& [name, value] : items) {
    pairs.push_back(Value::List({name, value}, Sequence::Kind::kTuple));
  }
  return Value::List(std::move(pairs));
}

Value Unique(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> seen;
  Generator result;
  for (const Value& item : Iterate(input)) {
    const Value value = bound.HasValue(1) ? AttributePath(item, *bound[1]) : item;
    const Value key = SortKey(value, bound.TruthOr(0, false));
    if (std::ranges::any_of(seen, [&](const Value& old) { return Equal(old, key); })) continue;
    seen.push_back(key);
    result.push_back(item);
  }
  return Generated(std::move(result));
}

Value Extreme(const Value& input, const Arguments& arguments, int sign) {
  const BoundArguments bound("min, max", arguments, {"case_sensitive", "attribute"});
  Value best = Value::MakeUndefined("no aggregated item, the sequence was empty");
  Value best_key;
  for (const Value& item : Iterate(input)) {
    const Value value = bound.HasValue(1) ? AttributePath(item, *bound[1]) : item;
    const Value key = SortKey(value, bound.TruthOr(0, false));
    if (best.IsUndefined() || Compare(key, best_key) * sign > 0) {
      best = item;
      best_key = key;
    }
  }
  return best;
}

Value Sum(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sum", arguments, {"attribute", "start"});
  Value sum = bound[1] == nullptr ? Value(int64_t{0}) : *bound[1];
  for (const Value& item : Iterate(input)) {
    sum = Arithmetic("+", sum, bound.HasValue(0) ? AttributePath(item, *bound[0]) : item);
  }
  return sum;
}

Value Reverse(const Value& input, const Arguments& arguments) {
  const BoundArguments none("reverse", arguments, {});
  std::vector<Value> items = Iterate(input);
  std::ranges::reverse(items);
  if (input.String() == nullptr) return Generated(std::move(items));
  std::string text;
  for (const Value& item : items) text += *item.String();
  return Value(std::move(text));
}

Value IntFilter(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("int", arguments, {"default"});
  const Value otherwise = bound[0] == nullptr ? Value(int64_t{0}) : *bound[0];
  if (input.IsFloat()) {
    const double number = input.Number("int");
    if (!(std::fabs(number) < 9.2e18)) return otherwise;
    return Value(static_cast<int64_t>(number));
  }
  if (input.IsNumber() || input.IsUndefined()) return Value(input.Integer("int"));
  if (input.String() == nullptr) return otherwise;
  std::string text = Strip(*input.String(), nullptr, true, true);
  if (text.starts_with('+')) text.erase(0, 1);
  int64_t integer = 0;
  const char* end = text.data() + text.size();
  const auto whole = std::from_chars(text.data(), end, integer);
  if (!text.empty() && whole.ec == std::errc() && whole.ptr == end) return Value(integer);
  double number = 0;
  const auto real = std::from_chars(text.data(), end, number);
  const bool fits = real.ec == std::errc() && real.ptr == end && std::fabs(number) < 9.2e18;
  return text.empty() || !fits ? otherwise : Value(static_cast<int64_t>(number));
}

Value FloatFilter(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("float", arguments, {"default"});
  if (input.IsNumber() || input.IsUndefined()) return Value(input.Number("float"));
  if (input.String() != nullptr) {
    std::string text = Strip(*input.String(), nullptr, true, true);
    if (text.starts_with('+')) text.erase(0, 1);
    double number = 0;
    const char* end = text.data() + text.size();
    const auto real = std::from_chars(text.data(), end, number);
    if (!text.empty() && real.ec == std::errc() && real.ptr == end) return Value(number);
  }
  return bound[0] == nullptr ? Value(0.0) : *bound[0];
}

Value Round(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("round", arguments, {"precision", "method"});
  const int64_t precision = bound.IntegerOr(0, 0);
  if (precision < 0 || precision > 15) throw TemplateProblem("round: precision must be 0 to 15");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double number = input.Number("round");
  const std::string method = bound.TextOr(1, "common");
  if (method == "ceil") return Value(std::ceil(number * scale) / scale);
  if (method == "floor") return Value(std::floor(number * scale) / scale);
  if (method != "common") throw TemplateProblem("round: method must be common, ceil or floor");
  if (!input.IsFloat()) return Value(input.Integer("round"));
  return Value(std::nearbyint(number * scale) / scale);  // to even, as Python rounds
}

Value Abs(const Value& input, const Arguments& arguments) {
  const BoundArguments none("abs", arguments, {});
  if (CompareBy("<", input, Value(int64_t{0}))) return Negative(input);
  return input.IsBool() ? Value(input.Integer("abs")) : input;
}

Value ToJsonFilter(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("tojson", arguments,
                             {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.TruthOr(0, false);
  if (bound.HasValue(1)) {
    style.indent = static_cast<int>(std::clamp<int64_t>(bound[1]->Integer("tojson"), 0, 100));
  }
  if (bound.HasValue(2)) {
    const Sequence* both = bound[2]->Items();
    if (both == nullptr || both->items.size() != 2) {
      throw TemplateProblem("tojson: separators must be two strings");
    }
    style.item_separator = both->items[0].Text("tojson");
    style.key_separator = both->items[1].Text("tojson");
  }
  style.sort_keys = bound.TruthOr(3, false);
  return Value(ToJson(input, style));
}

Value Indent(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("indent", arguments, {"width", "first", "blank"});
  std::string indentation;
  if (bound[0] != nullptr && bound[0]->String() != nullptr) {
    indentation = *bound[0]->String();
  } else {
    indentation.assign(static_cast<size_t>(std::clamp<int64_t>(bound.IntegerOr(0, 4), 0, 1000)),
                       ' ');
  }
  const bool blank = bound.TruthOr(2, false);
  const std::string text = input.Text("indent") + "\n";
  std::string result = bound.TruthOr(1, false) ? indentation : "";
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (at > 0) result += '\n';
    if (at > 0 && (blank || end > at)) result += indentation;
    result.append(text, at, end - at);
    CheckSize(result.size());
    at = end + 1;
  }
  return Value(std::move(result));
}

// Words begin at spaces, hyphens and opening brackets.
Value TitleFilter(const Value& input, const Arguments& arguments) {
  const BoundArguments none("title", arguments, {});
  const std::string text = ToText(input);
  const std::string lower = Lower(text);
  const std::string upper = Upper(text);
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = i == 0 || std::string_view("-({[<").find(text[i - 1]) < 5 ||
                        IsPythonSpace(static_cast<unsigned char>(text[i - 1]));
    result += begins ? upper[i] : lower[i];
  }
  return Value(std::move(result));
}

Value TrimFilter(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("trim", arguments, {"chars"});
  return Value(Strip(ToText(input), bound.HasValue(0) ? bound[0] : nullptr, true, true));
}

Value ReplaceFilter(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("replace", arguments, {"old", "new", "count"}, 2);
  const int64_t count = bound.HasValue(2) ? bound[2]->Integer("replace") : -1;
  return Value(Replace(ToText(input), ToText(*bound[0]), ToText(*bound[1]), count));
}

Value ItemsFilter(const Value& input, const Arguments& arguments) {
  const BoundArguments none("items", arguments, {});
  if (input.IsUndefined()) return Generated({});
  if (input.Mapping() == nullptr) throw TemplateProblem("items of what is no dictionary");
  return MethodOf(input, "items").Function()->call(arguments);
}

Value End(const Value& input, const Arguments& arguments, bool last) {
  const BoundArguments none(last ? "last" : "first", arguments, {});
  const std::vector<Value> items = Iterate(input);
  if (items.empty()) return Value::MakeUndefined("no first or last item, sequence was empty");
  return last ? items.back() : items.front();
}

using Filter = Value (*)(const Value& input, const Arguments& arguments);
struct NamedFilter {
  std::string_view name;
  Filter filter;
};

template <std::string (*f)(const std::string&)>
Value OfText(const Value& input, const Arguments& arguments) {
  const BoundArguments none("filter", arguments, {});
  return Value(f(ToText(input)));
}

const NamedFilter kFilters[] = {
    {"abs", Abs},
    {"capitalize", OfText<Capitalize>},
    {"count", [](const Value& v, const Arguments&) { return Value(LengthOf(v)); }},
    {"d", Default},
    {"default", Default},
    {"dictsort", DictSort},
    {"first", [](const Value& v, const Arguments& a) { return End(v, a, false); }},
    {"float", FloatFilter},
    {"indent", Indent},
    {"int", IntFilter},
    {"items", ItemsFilter},
    {"join", JoinFilter},
    {"last", [](const Value& v, const Arguments& a) { return End(v, a, true); }},
    {"length", [](const Value& v, const Arguments&) { return Value(LengthOf(v)); }},
    {"list", [](const Value& v, const Arguments&) { return Value::List(Iterate(v)); }},
    {"lower", OfText<Lower>},
    {"map", MapFilter},
    {"max", [](const Value& v, const Arguments& a) { return Extreme(v, a, 1); }},
    {"min", [](const Value& v, const Arguments& a) { return Extreme(v, a, -1); }},
    {"reject", [](const Value& v, const Arguments& a) { return Select(v, a, false, false); }},
    {"rejectattr", [](const Value& v, const Arguments& a) { return Select(v, a, false, true); }},
    {"replace", ReplaceFilter},
    {"reverse", Reverse},
    {"round", Round},
    {"safe", [](const Value& v, const Arguments&) { return Value(ToText(v)); }},
    {"select", [](const Value& v, const Arguments& a) { return Select(v, a, true, false); }},
    {"selectattr", [](const Value& v, const Arguments& a) { return Select(v, a, true, true); }},
    {"sort", Sort},
    {"string", [](const Value& v, const Arguments&) { return Value(ToText(v)); }},
    {"sum", Sum},
    {"title", TitleFilter},
    {"tojson", ToJsonFilter},
    {"trim", TrimFilter},
    {"unique", Unique},
    {"upper", OfText<Upper>},
};

const NamedFilter* FindFilter(std::string_view name) {
  const auto* filter = std::ranges::find(kFilters, name, &NamedFilter::name);
  return filter == std::end(kFilters) ? nullptr : filter;
}

}  // namespace

bool HasFilter(std::string_view name) { return FindFilter(name) != nullptr; }

std::string UnknownFilter(std::string_view name) {
  std::vector<std::string> known;
  for (const NamedFilter& filter : kFilters) known.emplace_back(filter.name);
  return StrCat("unknown filter '", name, "'", DidYouMean(name, known));
}

Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments) {
  const NamedFilter* filter = FindFilter(name);
  if (filter == nullptr) throw TemplateProblem(UnknownFilter(name));
  return filter->filter(input, arguments);
}

}  // namespace thinwire::text
