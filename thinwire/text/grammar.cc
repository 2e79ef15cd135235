#include "thinwire/text/grammar.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::text {
namespace {

// Copies of a part that a program may have.
constexpr int64_t kManyTimes = 256;
constexpr CodeRange kSurrogates = {0xD800, 0xDFFF};

}  // namespace

CodeRanges Normalized(CodeRanges ranges) {
  std::ranges::sort(ranges, {}, &CodeRange::first);
  CodeRanges joined;
  const auto add = [&](CodeRange range) {
    if (range.first > range.last) return;
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  };
  for (const CodeRange& range : ranges) {
    add({range.first, std::min(range.last, kSurrogates.first - 1)});
    add({std::max(range.first, kSurrogates.last + 1), std::min(range.last, kLastCodePoint)});
  }
  // The second half of one range may lie behind the first half of the next.
  std::ranges::sort(joined, {}, &CodeRange::first);
  ranges.swap(joined);
  joined.clear();
  for (const CodeRange& range : ranges) add(range);
  return joined;
}

CodeRanges Complement(const CodeRanges& ranges) {
  CodeRanges rest;
  uint32_t next = 0;
  for (const CodeRange& range : Normalized(ranges)) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) rest.push_back({next, kLastCodePoint});
  return Normalized(std::move(rest));
}

CodeRanges Intersection(const CodeRanges& a, const CodeRanges& b) {
  CodeRanges outside = Complement(a);
  const CodeRanges more = Complement(b);
  outside.insert(outside.end(), more.begin(), more.end());
  return Complement(outside);
}

std::string Printable(std::string_view text) {
  std::string printable(text);
  for (char& c : printable) {
    const bool control = static_cast<unsigned char>(c) < ' ' || c == '\x7F';
    if (control) c = '?';
  }
  return printable;
}

Grammar::Node Grammar::Add(Part part) {
  if (nodes_.size() >= kMostNodes || literal_bytes_ > kMostNodes) {
    throw UsageError(StrCat("grammar: more than ", kMostNodes, " parts or bytes of literals"));
  }
  nodes_.push_back(std::move(part));
  return static_cast<Node>(nodes_.size() - 1);
}

Grammar::Node Grammar::Literal(std::string text) {
  if (text.empty()) return Sequence({});
  literal_bytes_ += text.size();
  literals_.push_back(std::move(text));
  return Add({.kind = Kind::kLiteral, .index = static_cast<int32_t>(literals_.size() - 1)});
}

Grammar::Node Grammar::Characters(CodeRanges ranges) {
  classes_.push_back(Normalized(std::move(ranges)));
  return Add({.kind = Kind::kCharacters, .index = static_cast<int32_t>(classes_.size() - 1)});
}

Grammar::Node Grammar::Sequence(std::vector<Node> parts) {
  if (parts.size() == 1) return parts[0];
  return Add({.kind = Kind::kSequence, .parts = std::move(parts)});
}

Grammar::Node Grammar::Choice(std::vector<Node> parts) {
  THINWIRE_CHECK(!parts.empty());
  if (parts.size() == 1) return parts[0];
  return Add({.kind = Kind::kChoice, .parts = std::move(parts)});
}

Grammar::Node Grammar::Repeat(Node part, int64_t least, int64_t most) {
  THINWIRE_CHECK(least >= 0 && (most == kNoLimit || most >= least), least, " ", most);
  if (least == 1 && most == 1) return part;
  if (least > kManyTimes) {
    const Node exactly = Exactly(part, least);
    return most == least
               ? exactly
               : Sequence({exactly, Repeat(part, 0, most == kNoLimit ? kNoLimit : most - least)});
  }
  if (most - least > kManyTimes) {
    // Blocks of about the square root, of which each count has one way to be made.
    const auto block = static_cast<int64_t>(std::sqrt(static_cast<double>(most - least)));
    const int64_t blocks = (most - least) / block, rest = (most - least) % block;
    const Node whole = Repeat(part, block, block);
    const Node up_to =
        Choice({Sequence({Repeat(whole, blocks, blocks), Repeat(part, 0, rest)}),
                Sequence({Repeat(whole, 0, blocks - 1), Repeat(part, 0, block - 1)})});
    return least == 0 ? up_to : Sequence({Repeat(part, least, least), up_to});
  }
  return Add({.kind = Kind::kRepeat, .parts = {part}, .least = least, .most = most});
}

Grammar::Node Grammar::Exactly(Node part, int64_t times) {
  const auto block = static_cast<int64_t>(std::sqrt(static_cast<double>(times)));
  return Sequence({Repeat(Repeat(part, block, block), times / block, times / block),
                   Repeat(part, times % block, times % block)});
}

int32_t Grammar::AddRule(std::string name, Node body) {
  rules_.push_back({std::move(name), body});
  return static_cast<int32_t>(rules_.size() - 1);
}

Grammar::Node Grammar::Call(int32_t rule) { return Add({.kind = Kind::kRule, .index = rule}); }

}  // namespace thinwire::text
