// Arguments of a call by the names of its parameters.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/text/template_value.h"

namespace thinwire::text {

class BoundArguments {
 public:
  // TemplateProblem naming `function`: too many, given twice, of a name that it has not, or fewer
  // than `required`.
  BoundArguments(std::string_view function, const Arguments& arguments,
                 std::initializer_list<std::string_view> names, size_t required = 0)
      : function_(function) {
    if (arguments.positional.size() > names.size()) {
      throw TemplateProblem(StrCat(function, ": at most ", names.size(), " arguments, found ",
                                   arguments.positional.size()));
    }
    for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
      size_t i = 0;
      while (i < names.size() && names.begin()[i] != name) ++i;
      if (i == names.size()) throw TemplateProblem(StrCat(function, ": no argument '", name, "'"));
      if (values_[i] != nullptr) throw TemplateProblem(StrCat(function, ": '", name, "' twice"));
      values_[i] = &value;
    }
    for (size_t i = 0; i < required; ++i) {
      if (values_[i] == nullptr) {
        throw TemplateProblem(StrCat(function, ": argument '", names.begin()[i], "' is missing"));
      }
    }
  }

  // Null where it was not given.
  const Value* operator[](size_t i) const { return values_[i]; }
  const std::string& Text(size_t i) const { return values_[i]->Text(function_); }
  std::string TextOr(size_t i, std::string_view otherwise) const {
    return values_[i] == nullptr ? std::string(otherwise) : Text(i);
  }
  int64_t IntegerOr(size_t i, int64_t otherwise) const {
    return values_[i] == nullptr ? otherwise : values_[i]->Integer(function_);
  }
  bool TruthOr(size_t i, bool otherwise) const {
    return values_[i] == nullptr ? otherwise : Truth(*values_[i]);
  }
  bool HasValue(size_t i) const { return values_[i] != nullptr && !values_[i]->IsNone(); }

 private:
  std::string_view function_;
  std::array<const Value*, 6> values_{};
};

}  // namespace thinwire::text
