#include "thinwire/text/json_numbers.h"

#include <algorithm>
#include <string>
#include <utility>

namespace thinwire::text {
namespace {

using Node = Grammar::Node;

constexpr int64_t kMostDigits = 16;

class Maker {
 public:
  explicit Maker(Grammar& grammar) : grammar_(grammar) {}

  // From `least` to `most` (no bound: none); 0 <= least. Nothing where least > most.
  void AddWhole(int64_t least, std::optional<int64_t> most, std::vector<Node>& ways) {
    for (int64_t digits = 1, power = 10; digits <= kMostDigits; ++digits, power *= 10) {
      const int64_t first = std::max(least, digits == 1 ? 0 : power / 10);
      const int64_t last = std::min(most.value_or(power - 1), power - 1);
      if (first <= last) ways.push_back(SameLength(std::to_string(first), std::to_string(last)));
    }
  }

  // The same of numbers.
  void Add(int64_t least, std::optional<int64_t> most, const Bounds& open,
           std::vector<Node>& ways) {
    const auto with = [&](Node whole, Node fraction) {
      ways.push_back(grammar_.Sequence({whole, fraction}));
    };
    const auto zeros = grammar_.Optional(
        grammar_.Sequence({grammar_.Literal("."), Digits('0', '0', 1, kMostDigits)}));
    if (most && *most <= least) {
      if (*most == least && !open.above_least && !open.below_most) with(Text(least), zeros);
      return;
    }
    const Node any = grammar_.Optional(
        grammar_.Sequence({grammar_.Literal("."), Digits('0', '9', 1, kMostDigits)}));
    with(Text(least), open.above_least ? NotZero() : any);
    std::vector<Node> between;
    AddWhole(least + 1, most ? std::optional(*most - 1) : std::nullopt, between);
    if (!between.empty()) with(grammar_.Choice(std::move(between)), any);
    if (most && !open.below_most) with(Text(*most), zeros);
  }

  Node Negative(std::vector<Node> ways) {
    return grammar_.Sequence({grammar_.Literal("-"), grammar_.Choice(std::move(ways))});
  }

 private:
  Node Text(int64_t number) { return grammar_.Literal(std::to_string(number)); }
  Node Digits(char first, char last, int64_t least, int64_t most) {
    const CodeRange range = {static_cast<uint32_t>(first), static_cast<uint32_t>(last)};
    return grammar_.Repeat(grammar_.Characters({range}), least, most);
  }
  Node NotZero() {
    constexpr int64_t kHalf = kMostDigits / 2;
    return grammar_.Sequence({grammar_.Literal("."), Digits('0', '0', 0, kHalf - 1),
                              Digits('1', '9', 1, 1), Digits('0', '9', 0, kHalf)});
  }

  // Digit by digit: as long as both begin alike there is one way; then either bound goes on alone.
  Node SameLength(const std::string& first, const std::string& last) {
    const auto size = std::ssize(first);
    if (size == 0) return grammar_.Sequence({});
    const bool all = first.find_first_not_of('0') == std::string::npos &&
                     last.find_first_not_of('9') == std::string::npos;
    if (all) return Digits('0', '9', size, size);
    const auto digit = [&](char c, const std::string& from, const std::string& to) {
      return grammar_.Sequence({grammar_.Literal(std::string(1, c)), SameLength(from, to)});
    };
    const std::string first_rest = first.substr(1), last_rest = last.substr(1);
    if (first[0] == last[0]) return digit(first[0], first_rest, last_rest);
    const auto rest = static_cast<size_t>(size - 1);
    std::vector<Node> ways = {digit(first[0], first_rest, std::string(rest, '9')),
                              digit(last[0], std::string(rest, '0'), last_rest)};
    if (first[0] + 1 < last[0]) {
      ways.push_back(grammar_.Sequence(
          {Digits(static_cast<char>(first[0] + 1), static_cast<char>(last[0] - 1), 1, 1),
           Digits('0', '9', size - 1, size - 1)}));
    }
    return grammar_.Choice(std::move(ways));
  }

  Grammar& grammar_;
};

}  // namespace

Node IntegersBetween(Grammar& grammar, const Bounds& b) {
  Maker maker(grammar);
  std::vector<Node> ways, negative;
  if (!b.most || *b.most >= 0)
    maker.AddWhole(std::max<int64_t>(b.least.value_or(0), 0), b.most, ways);
  if (!b.least || *b.least < 0) {
    maker.AddWhole(std::max<int64_t>(b.most ? -*b.most : 1, 1),
                   b.least ? std::optional(-*b.least) : std::nullopt, negative);
  }
  if (!negative.empty()) ways.push_back(maker.Negative(std::move(negative)));
  return ways.empty() ? -1 : grammar.Choice(std::move(ways));
}

Node NumbersBetween(Grammar& grammar, const Bounds& b) {
  Maker maker(grammar);
  std::vector<Node> ways, negative;
  const bool from_zero = !b.least || *b.least < 0;
  if (!b.most || *b.most >= 0) {
    maker.Add(from_zero ? 0 : *b.least, b.most,
              {.above_least = !from_zero && b.above_least, .below_most = b.below_most}, ways);
  }
  if (from_zero) {
    // Minus zero is left to the others.
    const bool to_zero = !b.most || *b.most >= 0;
    maker.Add(to_zero ? 0 : -*b.most, b.least ? std::optional(-*b.least) : std::nullopt,
              {.above_least = to_zero || b.below_most, .below_most = b.above_least}, negative);
  }
  if (!negative.empty()) ways.push_back(maker.Negative(std::move(negative)));
  return ways.empty() ? -1 : grammar.Choice(std::move(ways));
}

}  // namespace thinwire::text
