#include "thinwire/text/template_operators.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/text/template_methods.h"

namespace thinwire::text {
namespace {

[[noreturn]] void FailUndefined(const Value& value) {
  throw TemplateProblem(*std::get<Value::Undefined>(value.data()).reason);
}
void CheckDefined(const Value& value) {
  if (value.IsUndefined()) FailUndefined(value);
}
[[noreturn]] void FailOverflow() { throw TemplateProblem("an integer does not fit 64 bits"); }

int64_t FloorDivide(int64_t a, int64_t b) {
  if (a == INT64_MIN && b == -1) FailOverflow();
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) FailOverflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) FailOverflow();
  }
  return Value(result);
}

Value OfIntegers(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (op == "**") {
    return IntegerPower(a, b);
  } else {
    if (b == 0) throw TemplateProblem("division by zero");
    if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
    const int64_t quotient = FloorDivide(a, b);
    result = op == "//" ? quotient : a - quotient * b;
  }
  if (overflow) FailOverflow();
  return Value(result);
}

Value OfFloats(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) throw TemplateProblem("division by zero");
  if (op == "/") return Value(a / b);
  const double remainder = std::fmod(a, b);
  const double modulo = remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
  return op == "%" ? Value(modulo) : Value(std::floor((a - modulo) / b + 0.5));
}

Value Repeat(const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const auto size = static_cast<int64_t>(value.String() != nullptr ? value.String()->size()
                                                                   : value.Items()->items.size());
  const auto most = static_cast<int64_t>(value.String() != nullptr ? kMaxValueBytes : kMaxItems);
  if (size > 0 && times > most / size) throw TemplateProblem("a repeated value is too long");
  if (value.String() != nullptr) {
    std::string text;
    for (int64_t i = 0; i < times; ++i) text += *value.String();
    return Value(std::move(text));
  }
  Sequence sequence{{}, value.Items()->kind, 0};
  for (int64_t i = 0; i < times; ++i) {
    sequence.items.insert(sequence.items.end(), value.Items()->items.begin(),
                          value.Items()->items.end());
  }
  return Value(std::move(sequence));
}

Value Joined(const Sequence& a, const Sequence& b) {
  CheckSize(0, a.items.size() + b.items.size());
  Sequence sequence = a;
  sequence.items.insert(sequence.items.end(), b.items.begin(), b.items.end());
  return Value(std::move(sequence));
}

// Python's slice.indices.
struct Range {
  int64_t begin, end, step;
};
Range RangeOf(int64_t length, const Value* begin, const Value* end, const Value* step) {
  const auto given = [](const Value* value) { return value != nullptr && !value->IsNone(); };
  Range range{0, 0, given(step) ? step->Integer("slice") : 1};
  if (range.step == 0) throw TemplateProblem("a slice has step 0");
  const bool back = range.step < 0;
  const auto place = [&](const Value* value, int64_t otherwise) {
    if (!given(value)) return otherwise;
    int64_t at = value->Integer("slice");
    if (at < 0) at += length;
    return std::clamp<int64_t>(at, back ? -1 : 0, back ? length - 1 : length);
  };
  range.begin = place(begin, back ? length - 1 : 0);
  range.end = place(end, back ? -1 : length);
  return range;
}

}  // namespace

Value Arithmetic(std::string_view op, const Value& a, const Value& b) {
  CheckDefined(a);
  CheckDefined(b);
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsFloat() || b.IsFloat()) return OfFloats(op, a.Number(op), b.Number(op));
    return OfIntegers(op, a.Integer(op), b.Integer(op));
  }
  if (op == "+" && a.String() != nullptr && b.String() != nullptr) {
    CheckSize(a.String()->size() + b.String()->size());
    return Value(*a.String() + *b.String());
  }
  if (op == "+" && a.Items() != nullptr && b.Items() != nullptr &&
      a.Items()->kind == b.Items()->kind && a.Items()->kind != Sequence::Kind::kGenerator) {
    return Joined(*a.Items(), *b.Items());
  }
  const auto repeats = [](const Value& value) {
    return value.String() != nullptr || value.Items() != nullptr;
  };
  if (op == "*" && repeats(a) && (b.IsInteger() || b.IsBool())) {
    return Repeat(a, b.Integer(op));
  }
  if (op == "*" && repeats(b) && (a.IsInteger() || a.IsBool())) {
    return Repeat(b, a.Integer(op));
  }
  throw TemplateProblem(StrCat("no '", op, "' of ", a.KindName(), " and ", b.KindName()));
}

Value Negative(const Value& value) {
  CheckDefined(value);
  if (value.IsFloat()) return Value(-value.Number("-"));
  return OfIntegers("-", 0, value.Integer("-"));
}

bool CompareBy(std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return Equal(a, b);
  if (op == "!=") return !Equal(a, b);
  if (op == "in") return Contains(b, a);
  if (op == "not in") return !Contains(b, a);
  CheckDefined(a);
  CheckDefined(b);
  const int order = Compare(a, b);
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

bool Contains(const Value& container, const Value& item) {
  if (container.IsUndefined()) return false;
  if (const std::string* text = container.String()) {
    return text->find(item.Text("in a string")) != std::string::npos;
  }
  if (const Dict* dict = container.Mapping()) {
    if (item.Mapping() != nullptr ||
        (item.Items() != nullptr && item.Items()->kind == Sequence::Kind::kList)) {
      throw TemplateProblem(StrCat(item.KindName(), " is no key of a dictionary"));
    }
    return dict->Find(item) != nullptr;
  }
  if (const Sequence* sequence = container.Items()) {
    return std::ranges::any_of(sequence->items, [&](const Value& own) { return Equal(own, item); });
  }
  throw TemplateProblem(StrCat(container.KindName(), " contains nothing"));
}

Value ItemOf(const Value& object, const Value& key) {
  CheckDefined(object);
  if (const Dict* dict = object.Mapping()) {
    if (const Value* found = dict->Find(key)) return *found;
  }
  if (key.IsInteger() || key.IsBool()) {
    const Sequence* sequence = object.Items();
    if (object.String() != nullptr ||
        (sequence != nullptr && sequence->kind != Sequence::Kind::kGenerator)) {
      const std::vector<Value> items = sequence != nullptr ? std::vector<Value>() : Iterate(object);
      const std::vector<Value>& all = sequence != nullptr ? sequence->items : items;
      int64_t at = key.Integer("subscript");
      if (at < 0) at += static_cast<int64_t>(all.size());
      if (at >= 0 && at < static_cast<int64_t>(all.size())) return all[static_cast<size_t>(at)];
      return Value::MakeUndefined(StrCat(object.KindName(), " has no element ", ToText(key)));
    }
  }
  if (key.String() != nullptr) {
    const Value method = MethodOf(object, *key.String());
    if (!method.IsUndefined()) return method;
    if (Namespace* space = object.Space()) {
      if (const Value* found = space->attributes.Find(key)) return *found;
    }
  }
  return Value::MakeUndefined(StrCat(object.KindName(), " has no element ", Repr(key)));
}

Value AttributeOf(const Value& object, const std::string& name) {
  CheckDefined(object);
  if (Namespace* space = object.Space()) {
    if (const Value* found = space->attributes.Find(name)) return *found;
  }
  const Value method = MethodOf(object, name);
  if (!method.IsUndefined()) return method;
  if (const Dict* dict = object.Mapping()) {
    if (const Value* found = dict->Find(name)) return *found;
  }
  return Value::MakeUndefined(StrCat(object.KindName(), " has no attribute '", name, "'"));
}

Value SliceOf(const Value& object, const Value* begin, const Value* end, const Value* step) {
  CheckDefined(object);
  if (object.String() == nullptr && object.Items() == nullptr) {
    throw TemplateProblem(StrCat("no slice of ", object.KindName()));
  }
  const std::vector<Value> items = Iterate(object);
  const Range range = RangeOf(LengthOf(object), begin, end, step);
  std::vector<Value> taken;
  for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end; i += range.step) {
    taken.push_back(items[static_cast<size_t>(i)]);
    if (range.step > INT64_MAX - i && range.step > 0) break;
  }
  if (object.String() == nullptr) return Value(Sequence{std::move(taken), object.Items()->kind, 0});
  std::string text;
  for (const Value& item : taken) text += *item.String();
  return Value(std::move(text));
}

}  // namespace thinwire::text
