// The keys of the configuration as data: what the parser, the writer, the hashes and the table in
// the documentation are made from.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "thinwire/train/config.h"

namespace thinwire::train {

using Field = std::variant<int64_t*, double*, bool*, std::string*, std::vector<std::string>*>;

struct ConfigKey {
  std::string_view section;
  std::string_view name;
  Field field;
  std::string_view meaning;
  double least = 0;  // of numbers, inclusive
  double most = 0;
  std::vector<std::string> choices = {};  // of strings; empty: any
  bool shared = true;                     // must be equal on all ranks

  std::string path() const;
  std::string_view type() const;
};

const std::vector<std::string>& SectionNames();

// All keys, their fields pointing into `config`.
std::vector<ConfigKey> KeysOf(Config& config);

}  // namespace thinwire::train
