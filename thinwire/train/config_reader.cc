#include "thinwire/train/config_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "thinwire/base/error.h"
#include "thinwire/base/nearest.h"
#include "thinwire/train/config_keys.h"

namespace thinwire::train {
namespace {

// The events of the parser. An object stands at depth 0 (the file) and 1 (a section), a list only
// where the key takes one, so nesting is bounded by what the keys allow.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(Config& config, std::string_view source) : source_(source), keys_(KeysOf(config)) {}

  bool null() override { return Wrong("null"); }
  bool boolean(bool value) override {
    const ConfigKey& key = Expect(value ? "true" : "false");
    auto* const* field = std::get_if<bool*>(&key.field);
    if (field == nullptr) return Wrong(value ? "true" : "false");
    **field = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    return Number(value, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    Expect(std::to_string(value));
    if (value > static_cast<uint64_t>(INT64_MAX)) Fail(" = ", value, " does not fit 64 bits");
    return Number(static_cast<int64_t>(value), std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    const ConfigKey& key = Expect(text);
    auto* const* field = std::get_if<double*>(&key.field);
    if (field == nullptr) {
      const bool whole = text.find_first_of(".eE") == std::string::npos;
      if (whole && std::holds_alternative<int64_t*>(key.field)) {
        Fail(" = ", text, " does not fit 64 bits");
      }
      return Wrong(text);
    }
    CheckBounds(key, value, text);
    **field = value;
    return true;
  }
  bool string(string_t& value) override {
    const std::string shown =
        nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const ConfigKey& key = Expect(StrCat("the string ", shown));
    if (auto* const* list = std::get_if<std::vector<std::string>*>(&key.field)) {
      (*list)->push_back(value);
      return true;
    }
    auto* const* field = std::get_if<std::string*>(&key.field);
    if (field == nullptr) return Wrong(StrCat("the string ", shown));
    if (!key.choices.empty() && std::ranges::find(key.choices, value) == key.choices.end()) {
      std::string choices;
      for (const std::string& choice : key.choices) {
        choices += StrCat(choices.empty() ? "" : ", ", choice);
      }
      Fail(": expected one of ", choices, ", found ", shown);
    }
    **field = value;
    return true;
  }
  bool binary(binary_t&) override { return Wrong("binary data"); }
  bool start_object(size_t) override {
    if (depth_ > 0 && key_ != nullptr) return Wrong("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 1) section_.clear();
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      EnterSection(name);
    } else {
      EnterKey(name);
    }
    return true;
  }
  bool start_array(size_t) override {
    const ConfigKey& key = Expect("a list");
    auto* const* list = std::get_if<std::vector<std::string>*>(&key.field);
    if (list == nullptr || in_list_) return Wrong("a list");
    in_list_ = true;
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": without the code.
    const std::string what = error.what();
    const size_t end = what.find("] ");
    throw UsageError(
        StrCat(source_, ": not JSON: ", end == std::string::npos ? what : what.substr(end + 2)));
  }

 private:
  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    throw UsageError(StrCat(source_, ": ", Path(), parts...));
  }
  std::string Path() const {
    if (key_ != nullptr) return key_->path();
    return section_.empty() ? "the config" : section_;
  }
  // The key whose value comes now.
  const ConfigKey& Expect(const std::string& found) const {
    if (key_ == nullptr) Fail(": expected an object, found ", found);
    return *key_;
  }
  bool Wrong(const std::string& found) const {
    const ConfigKey& key = Expect(found);
    const std::string_view type = key.type();
    Fail(": expected ", type == "integer" ? "an " : "a ", type, ", found ", found);
  }
  void CheckBounds(const ConfigKey& key, double value, const std::string& text) const {
    if (value >= key.least && value <= key.most) return;
    Fail(": expected ", key.least, " to ", key.most, ", found ", text);
  }
  bool Number(int64_t value, const std::string& text) {
    const ConfigKey& key = Expect(text);
    if (auto* const* field = std::get_if<double*>(&key.field)) {
      CheckBounds(key, static_cast<double>(value), text);
      **field = static_cast<double>(value);
      return true;
    }
    auto* const* field = std::get_if<int64_t*>(&key.field);
    if (field == nullptr) return Wrong(text);
    CheckBounds(key, static_cast<double>(value), text);
    **field = value;
    return true;
  }

  void EnterSection(const std::string& name) {
    key_ = nullptr;
    if (std::ranges::find(SectionNames(), name) == SectionNames().end()) {
      Fail(" has an unknown section ", name, DidYouMean(name, SectionNames()));
    }
    section_ = name;
    if (!seen_.insert(name).second) Fail(" is there twice");
  }
  void EnterKey(const std::string& name) {
    key_ = nullptr;
    const std::string path = section_ + "." + name;
    std::vector<std::string> here, elsewhere;
    for (const ConfigKey& key : keys_) {
      if (key.path() == path) key_ = &key;
      if (key.section == section_) here.push_back(key.path());
      if (key.name == name) elsewhere.push_back(key.path());
    }
    if (key_ == nullptr) {
      const std::string hint =
          elsewhere.empty() ? DidYouMean(path, here) : StrCat("; did you mean ", elsewhere[0], "?");
      throw UsageError(StrCat(source_, ": unknown key ", path, hint));
    }
    if (!seen_.insert(path).second) Fail(" is there twice");
    if (auto* const* list = std::get_if<std::vector<std::string>*>(&key_->field)) {
      (*list)->clear();
    }
  }

  std::string source_;
  std::vector<ConfigKey> keys_;
  std::set<std::string> seen_;
  std::string section_;
  const ConfigKey* key_ = nullptr;
  int depth_ = 0;
  bool in_list_ = false;
};

}  // namespace

void ReadInto(Config& config, std::string_view json, std::string_view source) {
  Handler handler(config, source);
  nlohmann::json::sax_parse(json, &handler);
}

}  // namespace thinwire::train
