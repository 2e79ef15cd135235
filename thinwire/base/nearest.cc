#include "thinwire/base/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <tuple>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string DidYouMean(std::string_view name, std::span<const std::string> known) {
  const std::string wanted = Lower(name);
  // Of equally near ones, that with the longest common beginning, then of the most equal length.
  const auto rank = [&](const std::string& candidate) {
    const std::string lower = Lower(candidate);
    const auto longer = std::max(lower.size(), wanted.size());
    const auto common = std::ranges::mismatch(wanted, lower).in1 - wanted.begin();
    return std::tuple(EditDistance(wanted, lower), -common,
                      longer - std::min(lower.size(), wanted.size()));
  };
  const auto nearest = std::ranges::min_element(known, {}, rank);
  if (nearest == known.end()) return "";
  const int limit = std::max(2, static_cast<int>(nearest->size()) / 3);
  if (std::get<0>(rank(*nearest)) > limit) return "";
  return StrCat("; did you mean ", *nearest, "?");
}

}  // namespace thinwire
