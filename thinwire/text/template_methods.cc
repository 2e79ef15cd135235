#include "thinwire/text/template_methods.h"

#include <algorithm>
#include <array>

#include "thinwire/base/error.h"
#include "thinwire/text/template_arguments.h"
#include "thinwire/text/template_lexer.h"
#include "thinwire/text/template_operators.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

bool IsLowerLetter(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpperLetter(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLetter(char c) { return IsLowerLetter(c) || IsUpperLetter(c); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Case and classes of other letters need tables that this engine has not: an error, not a guess.
void CheckAscii(const std::string& text, std::string_view what) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return;
  throw TemplateProblem(StrCat(what, " of other than ASCII letters is not supported"));
}
char LowerLetter(char c) { return IsUpperLetter(c) ? static_cast<char>(c + 32) : c; }
char UpperLetter(char c) { return IsLowerLetter(c) ? static_cast<char>(c - 32) : c; }

std::string Title(const std::string& text) {
  CheckAscii(text, "title");
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    result += i > 0 && IsLetter(text[i - 1]) ? LowerLetter(text[i]) : UpperLetter(text[i]);
  }
  return result;
}

std::vector<Value> SplitAtSpace(std::string_view text, int64_t most) {
  std::vector<Value> parts;
  while (true) {
    text.remove_prefix(LeadingSpace(text));
    if (text.empty()) return parts;
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.emplace_back(text);
      return parts;
    }
    size_t end = 0;
    while (end < text.size() && LeadingSpace(text.substr(end)) == 0) {
      end += NextUtf8(text.substr(end)).size;
    }
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

Value Split(const std::string& text, const Arguments& arguments, bool from_right) {
  const BoundArguments bound("split", arguments, {"sep", "maxsplit"});
  const int64_t most = bound.IntegerOr(1, -1);
  std::vector<Value> parts;
  if (!bound.HasValue(0)) {
    if (from_right && most >= 0) throw TemplateProblem("rsplit with maxsplit needs a separator");
    return Value::List(SplitAtSpace(text, most));
  }
  const std::string& separator = bound.Text(0);
  if (separator.empty()) throw TemplateProblem("split: an empty separator");
  std::string_view rest = text;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t at = from_right ? rest.rfind(separator) : rest.find(separator);
    if (at == std::string_view::npos) break;
    if (from_right) {
      parts.emplace_back(rest.substr(at + separator.size()));
      rest = rest.substr(0, at);
    } else {
      parts.emplace_back(rest.substr(0, at));
      rest.remove_prefix(at + separator.size());
    }
  }
  parts.emplace_back(rest);
  if (from_right) std::ranges::reverse(parts);
  return Value::List(std::move(parts));
}

Value SplitLines(const std::string& text, const Arguments& arguments) {
  const BoundArguments bound("splitlines", arguments, {"keepends"});
  const bool keep = bound.TruthOr(0, false);
  std::vector<Value> lines;
  for (std::string_view rest = text; !rest.empty();) {
    size_t end = std::min(rest.find_first_of("\n\r\v\f\x1C\x1D\x1E"), rest.size());
    for (const char* mark : {"\u0085", "\u2028", "\u2029"}) end = std::min(end, rest.find(mark));
    size_t next = end;
    if (end < rest.size()) {
      next += rest.substr(end).starts_with("\r\n") ? 2 : NextUtf8(rest.substr(end)).size;
    }
    lines.emplace_back(rest.substr(0, keep ? next : end));
    rest.remove_prefix(next);
  }
  return Value::List(std::move(lines));
}

// One string or a tuple of them.
Value Affix(const std::string& text, const Arguments& arguments, std::string_view name) {
  const BoundArguments bound(name, arguments, {"prefix"}, 1);
  const bool start = name == "startswith";
  const auto has = [&](const Value& affix) {
    const std::string& part = affix.Text(name);
    return start ? text.starts_with(part) : text.ends_with(part);
  };
  const Sequence* several = bound[0]->Items();
  if (several == nullptr) return Value(has(*bound[0]));
  return Value(std::ranges::any_of(several->items, has));
}

Value Find(const std::string& text, const Arguments& arguments, std::string_view name) {
  const BoundArguments bound(name, arguments, {"sub"}, 1);
  const bool last = name.starts_with('r');
  const size_t at = last ? text.rfind(bound.Text(0)) : text.find(bound.Text(0));
  if (at == std::string::npos) {
    if (name.ends_with("index")) throw TemplateProblem("substring not found");
    return Value(int64_t{-1});
  }
  return Value(LengthOf(Value(text.substr(0, at))));
}

Value Count(const std::string& text, const Arguments& arguments) {
  const BoundArguments bound("count", arguments, {"sub"}, 1);
  const std::string& part = bound.Text(0);
  if (part.empty()) return Value(LengthOf(Value(text)) + 1);
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return Value(count);
}

Value Is(const std::string& text, const std::string& name) {
  if (name == "isspace") return Value(!text.empty() && LeadingSpace(text) == text.size());
  CheckAscii(text, name);
  const auto all = [&](auto&& test) {
    return Value(!text.empty() && std::ranges::all_of(text, test));
  };
  if (name == "isdigit" || name == "isdecimal" || name == "isnumeric") return all(IsDigit);
  if (name == "isalpha") return all(IsLetter);
  if (name == "isalnum") return all([](char c) { return IsLetter(c) || IsDigit(c); });
  const bool upper = name == "isupper";
  return Value(std::ranges::any_of(text, IsLetter) &&
               std::ranges::none_of(text, upper ? IsLowerLetter : IsUpperLetter));
}

Value Partition(const std::string& text, const Arguments& arguments, bool last) {
  const BoundArguments bound("partition", arguments, {"sep"}, 1);
  const std::string& separator = bound.Text(0);
  if (separator.empty()) throw TemplateProblem("partition: an empty separator");
  const size_t at = last ? text.rfind(separator) : text.find(separator);
  std::vector<Value> parts = {Value(text), Value(""), Value("")};
  if (at == std::string::npos) {
    if (last) std::swap(parts[0], parts[2]);
  } else {
    parts = {Value(text.substr(0, at)), Value(separator),
             Value(text.substr(at + separator.size()))};
  }
  return Value::List(std::move(parts), Sequence::Kind::kTuple);
}

Value Join(const std::string& text, const Arguments& arguments) {
  const BoundArguments bound("join", arguments, {"iterable"}, 1);
  std::string joined;
  bool first = true;
  for (const Value& item : Iterate(*bound[0])) {
    if (!first) joined += text;
    joined += item.Text("join");
    CheckSize(joined.size());
    first = false;
  }
  return Value(std::move(joined));
}

Value RemoveAffix(const std::string& text, const Arguments& arguments, bool prefix) {
  const BoundArguments bound("removeprefix", arguments, {"prefix"}, 1);
  const std::string& affix = bound.Text(0);
  if (prefix && text.starts_with(affix)) return Value(text.substr(affix.size()));
  if (!prefix && text.ends_with(affix)) return Value(text.substr(0, text.size() - affix.size()));
  return Value(text);
}

Value ReplaceMethod(const std::string& text, const Arguments& arguments) {
  const BoundArguments bound("replace", arguments, {"old", "new", "count"}, 2);
  return Value(Replace(text, bound.Text(0), bound.Text(1), bound.IntegerOr(2, -1)));
}

Value CallStringMethod(const std::string& text, const std::string& name,
                       const Arguments& arguments) {
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const BoundArguments bound(name, arguments, {"chars"});
    const Value* characters = bound.HasValue(0) ? bound[0] : nullptr;
    return Value(Strip(text, characters, name != "rstrip", name != "lstrip"));
  }
  if (name == "split" || name == "rsplit") return Split(text, arguments, name == "rsplit");
  if (name == "splitlines") return SplitLines(text, arguments);
  if (name == "startswith" || name == "endswith") return Affix(text, arguments, name);
  if (name == "replace") return ReplaceMethod(text, arguments);
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex") {
    return Find(text, arguments, name);
  }
  if (name == "count") return Count(text, arguments);
  if (name == "join") return Join(text, arguments);
  if (name == "partition" || name == "rpartition") {
    return Partition(text, arguments, name == "rpartition");
  }
  if (name == "removeprefix" || name == "removesuffix") {
    return RemoveAffix(text, arguments, name == "removeprefix");
  }
  const BoundArguments none(name, arguments, {});
  if (name == "lower" || name == "casefold") return Value(Lower(text));
  if (name == "upper") return Value(Upper(text));
  if (name == "capitalize") return Value(Capitalize(text));
  if (name == "title") return Value(Title(text));
  return Is(text, name);
}

Value CallListMethod(const Sequence& list, const std::string& name, const Arguments& arguments) {
  const BoundArguments bound(name, arguments, {"value"}, 1);
  const auto same = [&](const Value& item) { return Equal(item, *bound[0]); };
  if (name == "count") return Value(static_cast<int64_t>(std::ranges::count_if(list.items, same)));
  const auto found = std::ranges::find_if(list.items, same);
  if (found == list.items.end()) throw TemplateProblem("index: no such item");
  return Value(static_cast<int64_t>(found - list.items.begin()));
}

Value CallDictMethod(const Dict& dict, const std::string& name, const Arguments& arguments) {
  if (name == "get") {
    const BoundArguments bound(name, arguments, {"key", "default"}, 1);
    const Value* found = dict.Find(*bound[0]);
    if (found != nullptr) return *found;
    return bound[1] == nullptr ? Value() : *bound[1];
  }
  const BoundArguments none(name, arguments, {});
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items) {
    if (name == "items") {
      items.push_back(Value::List({key, value}, Sequence::Kind::kTuple));
    } else {
      items.push_back(name == "keys" ? key : value);
    }
  }
  return Value::List(std::move(items));
}

template <size_t n>
bool IsOneOf(const std::string& name, const std::array<std::string_view, n>& names) {
  return std::ranges::find(names, name) != names.end();
}

constexpr std::array<std::string_view, 33> kStringMethods = {
    "strip",        "lstrip",   "rstrip",    "split",      "rsplit",     "splitlines",
    "startswith",   "endswith", "replace",   "find",       "rfind",      "index",
    "rindex",       "count",    "join",      "partition",  "rpartition", "removeprefix",
    "removesuffix", "lower",    "upper",     "capitalize", "title",      "casefold",
    "isspace",      "isdigit",  "isdecimal", "isnumeric",  "isalpha",    "isalnum",
    "isupper",      "islower",  "istitle"};
constexpr std::array<std::string_view, 2> kListMethods = {"count", "index"};
constexpr std::array<std::string_view, 4> kDictMethods = {"get", "items", "keys", "values"};
constexpr std::array<std::string_view, 12> kChanging = {"append",  "extend",     "insert", "pop",
                                                        "popitem", "remove",     "clear",  "sort",
                                                        "reverse", "setdefault", "update", "copy"};

}  // namespace

Value MethodOf(const Value& object, const std::string& name) {
  const auto bind = [&](auto&& call) {
    return Value(Callable{name, [object, name, call](const Arguments& arguments) {
                            return call(object, name, arguments);
                          }});
  };
  if (object.String() != nullptr && IsOneOf(name, kStringMethods)) {
    return bind([](const Value& o, const std::string& n, const Arguments& a) {
      return CallStringMethod(*o.String(), n, a);
    });
  }
  if (object.Items() != nullptr && IsOneOf(name, kListMethods)) {
    return bind([](const Value& o, const std::string& n, const Arguments& a) {
      return CallListMethod(*o.Items(), n, a);
    });
  }
  if (object.Mapping() != nullptr && IsOneOf(name, kDictMethods)) {
    return bind([](const Value& o, const std::string& n, const Arguments& a) {
      return CallDictMethod(*o.Mapping(), n, a);
    });
  }
  const bool holds = object.Items() != nullptr ||
                     (object.Mapping() != nullptr && object.Mapping()->Find(name) == nullptr);
  if (holds && IsOneOf(name, kChanging)) {
    throw TemplateProblem(StrCat("'", name, "' would change ", object.KindName()));
  }
  return Value::MakeUndefined("");
}

std::string Lower(const std::string& text) {
  CheckAscii(text, "lower");
  std::string result = text;
  std::ranges::transform(result, result.begin(), LowerLetter);
  return result;
}

std::string Upper(const std::string& text) {
  CheckAscii(text, "upper");
  std::string result = text;
  std::ranges::transform(result, result.begin(), UpperLetter);
  return result;
}

std::string Capitalize(const std::string& text) {
  std::string result = Lower(text);
  if (!result.empty()) result[0] = UpperLetter(result[0]);
  return result;
}

std::string Strip(const std::string& text, const Value* characters, bool left, bool right) {
  std::string_view rest = text;
  if (characters == nullptr) {
    if (left) rest.remove_prefix(LeadingSpace(rest));
    if (right) rest.remove_suffix(TrailingSpace(rest));
    return std::string(rest);
  }
  const std::string& set = characters->Text("strip");
  const auto in_set = [&](std::string_view character) {
    return set.find(character) != std::string::npos;
  };
  while (left && !rest.empty()) {
    const uint32_t size = NextUtf8(rest).size;
    if (!in_set(rest.substr(0, size))) break;
    rest.remove_prefix(size);
  }
  while (right && !rest.empty()) {
    size_t begin = rest.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(rest[begin]) & 0xC0) == 0x80) --begin;
    if (!in_set(rest.substr(begin))) break;
    rest = rest.substr(0, begin);
  }
  return std::string(rest);
}

std::string Replace(const std::string& text, const std::string& old, const std::string& with,
                    int64_t count) {
  std::string result;
  size_t at = 0;
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    CheckSize(result.size());
    size_t found = text.find(old, at);
    if (old.empty()) {  // before each character and at the end
      if (at > text.size()) break;
      result += with;
      if (at == text.size()) return result;
      const uint32_t size = NextUtf8(std::string_view(text).substr(at)).size;
      result.append(text, at, size);
      at += size;
      continue;
    }
    if (found == std::string::npos) break;
    result.append(text, at, found - at).append(with);
    at = found + old.size();
  }
  return result.append(text, at);
}

}  // namespace thinwire::text
