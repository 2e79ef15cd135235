#include "thinwire/text/chat_template.h"

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "thinwire/text/template_arguments.h"
#include "thinwire/text/template_parser.h"

namespace thinwire::text {
namespace {

constexpr int64_t kMaxRange = 100000;  // as Jinja's sandbox

Value RangeFunction(const Arguments& arguments) {
  const BoundArguments bound("range", arguments, {"start", "stop", "step"}, 1);
  const bool one = bound[1] == nullptr;
  const int64_t begin = one ? 0 : bound.IntegerOr(0, 0);
  const int64_t end = one ? bound.IntegerOr(0, 0) : bound.IntegerOr(1, 0);
  const int64_t step = bound.IntegerOr(2, 1);
  if (step == 0) throw TemplateProblem("range: step 0");
  std::vector<Value> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      throw TemplateProblem(StrCat("range: more than ", kMaxRange, " items"));
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::List(std::move(items));
}

Dict DictOf(std::string_view name, const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) throw TemplateProblem(StrCat(name, ": too many arguments"));
  if (!arguments.positional.empty()) {
    const Dict* given = arguments.positional[0].Mapping();
    if (given == nullptr) throw TemplateProblem(StrCat(name, ": expected a dictionary"));
    dict = *given;
  }
  for (const auto& [key, value] : arguments.named) dict.Set(Value(key), value);
  return dict;
}

Value StrftimeNow(const Arguments& arguments, std::time_t now) {
  const BoundArguments bound("strftime_now", arguments, {"format"}, 1);
  const std::string& format = bound.Text(0);
  if (format.size() > 200) throw TemplateProblem("strftime_now: the format is too long");
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 4096> text{};
  const size_t size = std::strftime(text.data(), text.size(), format.c_str(), &local);
  return Value(std::string_view(text.data(), size));
}

// Namespaces can be set to hold one another, and each would keep the other alive.
class NamespaceOwner {
 public:
  NamespaceOwner() = default;
  ~NamespaceOwner() {
    for (const auto& space : spaces_) space->attributes.items.clear();
  }
  NamespaceOwner(const NamespaceOwner&) = delete;
  NamespaceOwner& operator=(const NamespaceOwner&) = delete;

  std::shared_ptr<Namespace> Add(Dict attributes) {
    spaces_.push_back(std::make_shared<Namespace>(Namespace{std::move(attributes)}));
    return spaces_.back();
  }

 private:
  std::vector<std::shared_ptr<Namespace>> spaces_;
};

}  // namespace

struct ChatTemplate::Impl {
  std::string source;
  Block block;
};

ChatTemplate::ChatTemplate(std::string_view source) {
  auto impl = std::make_unique<Impl>();
  impl->source = NormalizeTemplate(source);
  impl->block = ParseTemplate(impl->source);
  impl_ = std::move(impl);
}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::Render(const nlohmann::ordered_json& variables,
                                 const RenderOptions& options) const {
  const auto globals = std::make_shared<Scope>();
  std::optional<std::string> refusal;
  const auto add = [&](const char* name, std::function<Value(const Arguments&)> call) {
    globals->Set(name, Value(Callable{name, std::move(call)}));
  };
  add("range", RangeFunction);
  add("dict", [](const Arguments& arguments) { return Value(DictOf("dict", arguments)); });
  NamespaceOwner spaces;
  add("namespace", [&](const Arguments& arguments) {
    return Value(spaces.Add(DictOf("namespace", arguments)));
  });
  add("raise_exception", [&](const Arguments& arguments) -> Value {
    const BoundArguments bound("raise_exception", arguments, {"message"}, 1);
    refusal = ToText(*bound[0]);
    throw TemplateProblem(*refusal);
  });
  const std::time_t now = options.now ? *options.now : std::time(nullptr);
  add("strftime_now", [now](const Arguments& arguments) { return StrftimeNow(arguments, now); });
  const auto scope = std::make_shared<Scope>(Scope{globals, {}});
  try {
    for (const auto& [name, value] : variables.items()) scope->Set(name, FromJson(value));
  } catch (const TemplateProblem& problem) {
    throw TemplateError(StrCat("chat template: the messages: ", problem.what()));
  }
  try {
    return TemplateEvaluator(impl_->source, options.limits).Run(impl_->block, scope);
  } catch (const TemplateError& error) {
    if (refusal) throw TemplateRefusal(error, *refusal);
    throw;
  }
}

}  // namespace thinwire::text
