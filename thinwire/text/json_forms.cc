#include "thinwire/text/json_forms.h"

#include <algorithm>
#include <array>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

using Node = Grammar::Node;

constexpr int64_t kMostSpaces = 24, kMostTabs = 8;  // that indent a line
constexpr int64_t kMostDigits = 16;
constexpr int64_t kMostExponentDigits = 2;

const CodeRange kDigit = {'0', '9'};

// Characters that cannot stand in a string by themselves.
const CodeRanges& Escaped() {
  static const CodeRanges escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  return escaped;
}

std::string Escape(uint32_t c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::array<std::pair<char, char>, 7> kShort = {
      {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
  for (const auto& [from, to] : kShort) {
    if (static_cast<uint32_t>(from) == c) return {'\\', to};
  }
  return std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
}

}  // namespace

template <typename Make>
Node JsonForms::Rule(const char* name, const Make& make) {
  const auto [at, added] = rules_.try_emplace(name, 0);
  if (added) {
    const int32_t rule = at->second = grammar_.AddRule(StrCat("JSON ", name));
    grammar_.Define(rule, make());
    return grammar_.Call(rule);
  }
  return grammar_.Call(at->second);
}

Node JsonForms::Space() {
  return Rule("space", [&] {
    const Node indent = grammar_.Choice({grammar_.Repeat(grammar_.Literal(" "), 0, kMostSpaces),
                                         grammar_.Repeat(grammar_.Literal("\t"), 1, kMostTabs)});
    return grammar_.Optional(grammar_.Choice(
        {grammar_.Literal(" "), grammar_.Sequence({grammar_.Literal("\n"), indent})}));
  });
}

Node JsonForms::Comma() {
  return Rule("comma", [&] { return grammar_.Sequence({grammar_.Literal(","), Space()}); });
}

Node JsonForms::Brackets(const char* open, Node content, const char* close) {
  return grammar_.Sequence({grammar_.Literal(open), Space(), content, grammar_.Literal(close)});
}

Node JsonForms::AnyCharacter() {
  return Rule("character", [&] {
    const Node any = Character({{0, kLastCodePoint}});
    const auto hex = [&](CodeRanges more) {
      more.push_back(kDigit);
      return grammar_.Characters(std::move(more));
    };
    const Node digit = hex({{'a', 'f'}, {'A', 'F'}});
    const Node two = grammar_.Repeat(digit, 2, 2);
    const Node d = grammar_.Characters({{'d', 'd'}, {'D', 'D'}});
    const Node plain = grammar_.Choice(
        {grammar_.Sequence({hex({{'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}), digit, two}),
         grammar_.Sequence({d, grammar_.Characters({{'0', '7'}}), two})});
    const Node high = grammar_.Characters({{'8', '9'}, {'a', 'b'}, {'A', 'B'}});
    const Node low = grammar_.Characters({{'c', 'f'}, {'C', 'F'}});
    // Two halves of a pair are one character.
    const Node pair = grammar_.Sequence({d, high, two, grammar_.Literal("\\u"), d, low, two});
    return grammar_.Choice(
        {any, grammar_.Literal("\\/"),
         grammar_.Sequence({grammar_.Literal("\\u"), grammar_.Choice({plain, pair})})});
  });
}

Node JsonForms::String(int64_t least, int64_t most) {
  return Quoted(grammar_.Repeat(AnyCharacter(), least, most));
}

Node JsonForms::Quoted(Node content) {
  return grammar_.Sequence({grammar_.Literal("\""), content, grammar_.Literal("\"")});
}

Node JsonForms::Character(const CodeRanges& ranges) {
  const CodeRanges normal = Normalized(ranges);
  std::vector<uint32_t> key;
  for (const CodeRange& range : normal) key.insert(key.end(), {range.first, range.last});
  const auto [at, added] = characters_.try_emplace(std::move(key), 0);
  if (added) {
    std::vector<Node> ways;
    CodeRanges plain = Intersection(normal, Complement(Escaped()));
    if (!plain.empty()) ways.push_back(grammar_.Characters(std::move(plain)));
    for (const CodeRange& range : Intersection(normal, Escaped())) {
      for (uint32_t c = range.first; c <= range.last; ++c) {
        ways.push_back(grammar_.Literal(Escape(c)));
      }
    }
    // An empty class is refused by the grammar's own checks.
    if (ways.empty()) ways.push_back(grammar_.Characters({}));
    at->second = grammar_.AddRule("JSON characters", grammar_.Choice(std::move(ways)));
  }
  return grammar_.Call(at->second);
}

Node JsonForms::Number() {
  return Rule("number", [&] {
    const Node digit = grammar_.Characters({kDigit});
    const Node whole = grammar_.Choice(
        {grammar_.Literal("0"), grammar_.Sequence({grammar_.Characters({{'1', '9'}}),
                                                   grammar_.Repeat(digit, 0, kMostDigits - 1)})});
    const Node fraction =
        grammar_.Sequence({grammar_.Literal("."), grammar_.Repeat(digit, 1, kMostDigits)});
    const Node sign = grammar_.Characters({{'+', '+'}, {'-', '-'}});
    const Node exponent =
        grammar_.Sequence({grammar_.Characters({{'e', 'e'}, {'E', 'E'}}), grammar_.Optional(sign),
                           grammar_.Repeat(digit, 1, kMostExponentDigits)});
    return grammar_.Sequence({grammar_.Optional(grammar_.Literal("-")), whole,
                              grammar_.Optional(fraction), grammar_.Optional(exponent)});
  });
}

Node JsonForms::Value() {
  return Rule("value", [&] {
    return grammar_.Choice({Object(), Array({.rest = Value(), .most = Grammar::kNoLimit}), String(),
                            Number(), grammar_.Literal("true"), grammar_.Literal("false"),
                            grammar_.Literal("null")});
  });
}

Node JsonForms::Object() {
  return Rule("object", [&] { return ObjectOf({}, Pair(String(), Value())); });
}

Node JsonForms::Pair(Node key, Node value) {
  return grammar_.Sequence(
      {key, grammar_.Literal(":"), grammar_.Optional(grammar_.Literal(" ")), value});
}

Node JsonForms::Array(const Elements& e) {
  const auto after_comma = [&](Node node) { return grammar_.Sequence({Comma(), node}); };
  const auto rest = [&](int64_t least, int64_t most) {
    return most == 0 ? grammar_.Sequence({}) : grammar_.Repeat(after_comma(e.rest), least, most);
  };
  if (e.first.empty()) {
    if (e.most == 0) return Brackets("[", grammar_.Sequence({}), "]");
    const int64_t more = e.most == Grammar::kNoLimit ? Grammar::kNoLimit : e.most - 1;
    const Node content =
        grammar_.Sequence({e.rest, rest(std::max<int64_t>(e.least - 1, 0), more), Space()});
    return Brackets("[", e.least == 0 ? grammar_.Optional(content) : content, "]");
  }
  // What may stand behind the element before, from the last one back.
  Node tail = rest(e.least, e.most);
  for (size_t i = e.first.size(); i-- > 1;) {
    tail = after_comma(grammar_.Sequence({e.first[i], tail}));
    if (i >= e.needed) tail = grammar_.Optional(tail);
    // A rule each, as a long list would be a deep tree.
    tail = grammar_.Call(grammar_.AddRule("JSON elements", tail));
  }
  const Node content = grammar_.Sequence({e.first[0], tail, Space()});
  return Brackets("[", e.needed == 0 ? grammar_.Optional(content) : content, "]");
}

Node JsonForms::ObjectOf(const std::vector<Member>& members, Node others) {
  const auto after_comma = [&](Node node) { return grammar_.Sequence({Comma(), node}); };
  // `tail` is what may follow another member, `firsts` what may come first, from the last back.
  Node tail = grammar_.Sequence({});
  std::vector<Node> firsts;
  bool may_be_empty = true;
  if (others >= 0) {
    tail = grammar_.Repeat(after_comma(others), 0);
    firsts.push_back(grammar_.Sequence({others, tail}));
  }
  for (size_t i = members.size(); i-- > 0;) {
    const Member& member = members[i];
    const int32_t rest = grammar_.AddRule("JSON members", tail);
    if (member.needed) {
      firsts.clear();
      may_be_empty = false;
    }
    firsts.push_back(grammar_.Sequence({member.text, grammar_.Call(rest)}));
    const Node next = after_comma(member.text);
    tail = grammar_.Sequence({member.needed ? next : grammar_.Optional(next), grammar_.Call(rest)});
  }
  if (firsts.empty()) return Brackets("{", grammar_.Sequence({}), "}");
  const Node content = grammar_.Sequence({grammar_.Choice(std::move(firsts)), Space()});
  return Brackets("{", may_be_empty ? grammar_.Optional(content) : content, "}");
}

Node JsonForms::OtherString(const std::set<std::string>& strings) {
  struct Place {
    std::map<uint32_t, size_t> next;
    bool last = false;
    int32_t rule = 0;
  };
  std::vector<Place> places(1);
  for (const std::string_view string : strings) {
    size_t at = 0;
    for (size_t i = 0; i < string.size();) {
      const Utf8Step step = NextUtf8(string.substr(i));
      const auto [found, added] =
          places[at].next.try_emplace(CodePoint(string.substr(i), step.size), places.size());
      at = found->second;
      if (added) places.emplace_back();
      i += step.size;
    }
    places[at].last = true;
  }
  const Node rest = grammar_.Repeat(Character({{0, kLastCodePoint}}), 0);
  for (Place& place : places) place.rule = grammar_.AddRule("JSON key");
  for (const Place& place : places) {
    std::vector<Node> ways;
    CodeRanges known;
    for (const auto& [c, next] : place.next) {
      known.push_back({c, c});
      ways.push_back(grammar_.Sequence({Character({{c, c}}), grammar_.Call(places[next].rule)}));
    }
    ways.push_back(grammar_.Sequence({Character(Complement(known)), rest}));
    if (!place.last) ways.push_back(grammar_.Sequence({}));
    grammar_.Define(place.rule, grammar_.Choice(std::move(ways)));
  }
  return Quoted(grammar_.Call(places[0].rule));
}

}  // namespace thinwire::text
