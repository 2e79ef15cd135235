// Values of chat templates, with Python's meaning of truth, equality, order and text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace thinwire::text {

// What is wrong with an operation; whoever evaluates the expression adds the place.
class TemplateProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A value that a template builds may have so many bytes or items; TemplateProblem beyond.
constexpr size_t kMaxValueBytes = size_t{1} << 26;
constexpr size_t kMaxItems = size_t{1} << 20;
void CheckSize(size_t bytes, size_t items = 0);

class Value;

struct Sequence {
  enum class Kind : uint8_t {
    kList,
    kTuple,
    kGenerator,  // of map, select and their like: true even where it is empty, without a length
  };
  std::vector<Value> items;
  Kind kind = Kind::kList;
  int depth = 0;  // set by Value
};

// In the order of insertion. Looked up one by one: messages have few keys.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  int depth = 0;  // set by Value

  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  void Set(const Value& key, Value value);
};

struct Namespace {
  Dict attributes;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable {
  std::string name;
  std::function<Value(const Arguments&)> call;
};

// Cheap to copy: what is large is shared and, but for namespaces, never changes.
class Value {
 public:
  struct None {};
  struct Undefined {
    std::shared_ptr<const std::string> reason;  // "'x' is undefined"
  };
  using Data =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
                   std::shared_ptr<Namespace>, std::shared_ptr<const Callable>>;

  Value() : data_(None()) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(std::string value)
      : data_(std::make_shared<const std::string>(std::move(value))) {}
  explicit Value(std::string_view value) : Value(std::string(value)) {}
  explicit Value(const char* value) : Value(std::string(value)) {}
  // TemplateProblem where lists and dictionaries are nested deeper than 200: walks over them recur.
  explicit Value(Sequence value);
  explicit Value(Dict value);
  explicit Value(std::shared_ptr<Namespace> value) : data_(std::move(value)) {}
  explicit Value(Callable value) : data_(std::make_shared<const Callable>(std::move(value))) {}
  static Value MakeUndefined(std::string reason);
  static Value List(std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::kList) {
    return Value(Sequence{std::move(items), kind, 0});
  }

  bool IsUndefined() const { return std::holds_alternative<Undefined>(data_); }
  bool IsNone() const { return std::holds_alternative<None>(data_); }
  bool IsBool() const { return std::holds_alternative<bool>(data_); }
  bool IsInteger() const { return std::holds_alternative<int64_t>(data_); }  // no bool
  bool IsFloat() const { return std::holds_alternative<double>(data_); }
  bool IsNumber() const { return IsBool() || IsInteger() || IsFloat(); }
  // Each null where the value is of another kind.
  const std::string* String() const { return Shared<const std::string>(); }
  const Sequence* Items() const { return Shared<const Sequence>(); }
  const Dict* Mapping() const { return Shared<const Dict>(); }
  Namespace* Space() const { return Shared<Namespace>(); }
  const Callable* Function() const { return Shared<const Callable>(); }

  // Of a bool or an integer; TemplateProblem naming `what` otherwise.
  int64_t Integer(std::string_view what) const;
  // Of any number.
  double Number(std::string_view what) const;
  // TemplateProblem naming `what` where it is no string.
  const std::string& Text(std::string_view what) const;

  // "a string", "a list" ..., for messages.
  std::string_view KindName() const;
  const Data& data() const { return data_; }

 private:
  template <typename T>
  T* Shared() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  Data data_;
};

bool Truth(const Value& value);
// str() and repr(). Of an undefined value: nothing.
std::string ToText(const Value& value);
std::string Repr(const Value& value);
bool Equal(const Value& a, const Value& b);
// Below 0, 0 or above; TemplateProblem where the two have no order.
int Compare(const Value& a, const Value& b);
// What a loop goes over: items, keys, characters; of an undefined value nothing.
std::vector<Value> Iterate(const Value& value);
// Characters, items or keys.
int64_t LengthOf(const Value& value);

Value FromJson(const nlohmann::ordered_json& json);

struct JsonStyle {
  int indent = -1;  // below 0: on one line
  bool sort_keys = false;
  bool ensure_ascii = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// As Python's json.dumps.
std::string ToJson(const Value& value, const JsonStyle& style);

}  // namespace thinwire::text
