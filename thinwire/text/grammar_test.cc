#include "thinwire/text/grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/text/gbnf.h"
#include "thinwire/text/grammar_automaton.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

GrammarAutomaton Ready(std::string_view gbnf, int64_t most_work = GrammarAutomaton::kMostWork) {
  return GrammarAutomaton(std::make_shared<GrammarProgram>(CompileGrammar(ParseGbnf(gbnf))),
                          most_work);
}

GrammarAutomaton::State After(GrammarAutomaton& automaton, std::string_view text) {
  GrammarAutomaton::State state = automaton.start();
  for (const char c : text) state = automaton.Next(state, static_cast<uint8_t>(c));
  return state;
}

bool Matches(std::string_view gbnf, std::string_view text) {
  GrammarAutomaton automaton = Ready(gbnf);
  return automaton.Complete(After(automaton, text));
}

std::string ErrorOf(std::string_view gbnf) {
  try {
    Ready(gbnf, 1 << 18);
    return "-";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(CodeRanges, SetsOfCodePoints) {
  EXPECT_EQ(Normalized({{5, 9}, {1, 2}, {3, 4}, {8, 20}}), (CodeRanges{{1, 20}}));
  EXPECT_EQ(Normalized({{0xD000, 0xE001}, {0xD7FF, 0xD900}}),
            (CodeRanges{{0xD000, 0xD7FF}, {0xE000, 0xE001}}));
  EXPECT_EQ(Complement({}), (CodeRanges{{0, 0xD7FF}, {0xE000, kLastCodePoint}}));
  EXPECT_EQ(Complement(Complement({{0, 3}, {9, kLastCodePoint}})),
            (CodeRanges{{0, 3}, {9, 0xD7FF}, {0xE000, kLastCodePoint}}));
  EXPECT_EQ(Intersection({{1, 9}, {20, 30}}, {{5, 25}}), (CodeRanges{{5, 9}, {20, 25}}));
}

TEST(Gbnf, ReadsWhatTheNotationHas) {
  const char* const gbnf = R"G(# greetings
root ::= greeting ", " name "!"? | # the other one
         "\u00A1" [^\n\x41-C]{1,2}
  | ( "(" (
      root   # in parentheses
  ) ")" ){2,}
name-1_x ::= "" | [A-Z] [a-z-]*
name ::= name-1_x
greeting ::= ("Hello" | "Hi") .{0,1} "\U0001F600"+)G";
  for (const char* const text : {"Hello, Bob", "Hi.\U0001F600, A-b!", "Hi\U0001F600\U0001F600, ",
                                 "¡é", "¡xy", "(¡x)(¡y)", "(¡x)(¡y)((¡x)(¡y))"}) {
    const bool smiles = std::string_view(text).starts_with("H");
    const bool has = std::string_view(text).find("\U0001F600") != std::string_view::npos;
    EXPECT_EQ(Matches(gbnf, text), !smiles || has) << text;
  }
  for (const char* const text :
       {"", "¡", "¡xyz", "¡B", "¡\n", "(¡x)", "Hi\U0001F600, bob", "¡\xC3"}) {
    EXPECT_FALSE(Matches(gbnf, text)) << text;
  }
  EXPECT_TRUE(Matches("root ::= \"\"", ""));
  EXPECT_TRUE(Matches("root ::=", ""));
  EXPECT_FALSE(Matches("root ::= \"\"", "x"));
  EXPECT_TRUE(Matches("root ::= \"ab\"{2} [x-]", "abab-"));
}

TEST(Gbnf, SaysWhereItIsWrong) {
  EXPECT_EQ(ErrorOf("root ::= \"a\"\nb ::= (\"x\""),
            "grammar: line 2, column 11: expected \")\", found the end");
  EXPECT_EQ(ErrorOf("root ::= a"), "grammar: line 1, column 10: there is no rule \"a\"");
  EXPECT_EQ(ErrorOf("a ::= \"\""), "grammar: there is no rule \"root\"");
  EXPECT_EQ(ErrorOf("root := \"a\""), "grammar: line 1, column 7: expected \"::=\", found \"=\"");
  EXPECT_EQ(ErrorOf("root ::= \"a\" root ::= \"b\""),
            "grammar: line 1, column 14: expected a part of the rule or the end of the line, "
            "found \"r\"");
  EXPECT_EQ(ErrorOf("root ::= \"a\"\nroot ::= \"b\""),
            "grammar: line 2, column 1: this rule is there already");
  EXPECT_EQ(ErrorOf("root ::= \"a\n\""), "grammar: line 1, column 10: a literal without its end");
  EXPECT_EQ(ErrorOf("root ::= \"\\q\""), "grammar: line 1, column 11: no escape of this notation");
  EXPECT_EQ(ErrorOf("root ::= [b-a]"),
            "grammar: line 1, column 14: this range ends before it begins");
  EXPECT_EQ(ErrorOf("root ::= []"), "grammar: line 1, column 10: a class of no characters");
  EXPECT_EQ(ErrorOf("root ::= .{3,2}"),
            "grammar: line 1, column 11: {3,2}: the second number is less than the first");
  EXPECT_EQ(ErrorOf("root ::= .{1000000}"), "grammar: line 1, column 12: more than 50000 times");
  EXPECT_EQ(ErrorOf("root ::= \"\\uD800\""),
            "grammar: line 1, column 11: no character has this number");
  EXPECT_EQ(ErrorOf("root ::= \"\\x4\""),
            "grammar: line 1, column 11: an escape of 2 hexadecimal digits has fewer");
  EXPECT_EQ(ErrorOf("root ::= <think>"),
            "grammar: line 1, column 10: expected a part of the rule or the end of the line, "
            "found \"<\"");
  EXPECT_EQ(ErrorOf("root ::= \"\xFF\""), "grammar: line 1, column 11: no UTF-8");
  EXPECT_EQ(ErrorOf("root ::= " + std::string(300, '(')).substr(0, 30),
            "grammar: line 1, column 211: m");
  EXPECT_EQ(ErrorOf("root ::= \"a\"" + std::string(300, '*')),
            "grammar: line 1, column 21: too many repetitions of one another");
  EXPECT_NE(ErrorOf("root ::= " + std::string(1 << 20, ' ')), "-");
}

TEST(Gbnf, RefusesRulesThatBeginWithThemselvesOrNeverEnd) {
  const std::string begins = "\" begins with itself", ends = "\" never ends";
  const auto names = [](const std::string& error, const std::string& what) {
    return error.find(what) != std::string::npos;
  };
  EXPECT_TRUE(names(ErrorOf("root ::= a\na ::= a \"x\" | \"y\""), "\"a" + begins));
  EXPECT_TRUE(names(ErrorOf("root ::= b? root \"x\" | \"y\"\nb ::= \"b\""), "\"root" + begins));
  EXPECT_TRUE(
      names(ErrorOf("root ::= \"x\" a\na ::= (\"b\" | c)* a | \"\"\nc ::= \"\""), "\"a" + begins));
  EXPECT_TRUE(names(ErrorOf("root ::= \"x\" | a\na ::= \"(\" a \")\""), "\"a" + ends));
  EXPECT_EQ(ErrorOf("root ::= (\"x\"* | \"y\"?)* root-2\nroot-2 ::= \"z\" root | \"\""), "-");
}

// The ends of all beginnings of text[at..] that a node is: by definition, on the tree.
class Reference {
 public:
  Reference(const Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  bool Matches() { return Rule(grammar_.root(), 0).contains(text_.size()); }

 private:
  using Ends = std::set<size_t>;

  const Ends& Rule(int32_t rule, size_t at) {
    const auto [found, added] = known_.try_emplace({rule, at});
    if (added) found->second = Of(grammar_.rules()[static_cast<size_t>(rule)].body, at);
    return found->second;
  }

  Ends Of(Grammar::Node node, size_t at) {
    const Grammar::Part& part = grammar_.part(node);
    switch (part.kind) {
      case Grammar::Kind::kLiteral: {
        const std::string& literal = grammar_.literal(part.index);
        return text_.substr(at).starts_with(literal) ? Ends{at + literal.size()} : Ends{};
      }
      case Grammar::Kind::kCharacters: {
        const Utf8Step step = NextUtf8(text_.substr(at));
        if (step.state != Utf8State::kValid) return {};
        const uint32_t c = CodePoint(text_.substr(at), step.size);
        for (const CodeRange& range : grammar_.characters(part.index)) {
          if (c >= range.first && c <= range.last) return {at + step.size};
        }
        return {};
      }
      case Grammar::Kind::kSequence: {
        Ends ends = {at};
        for (const Grammar::Node each : part.parts) ends = Behind(each, ends);
        return ends;
      }
      case Grammar::Kind::kChoice: {
        Ends ends;
        for (const Grammar::Node each : part.parts) ends.merge(Of(each, at));
        return ends;
      }
      case Grammar::Kind::kRepeat: {
        Ends all, ends = {at};
        const int64_t most =
            part.most == Grammar::kNoLimit ? part.least + std::ssize(text_) + 1 : part.most;
        for (int64_t i = 0; i <= most; ++i) {
          if (i >= part.least) all.insert(ends.begin(), ends.end());
          ends = Behind(part.parts[0], ends);
        }
        return all;
      }
      case Grammar::Kind::kRule:
        return Rule(part.index, at);
    }
    return {};
  }

  Ends Behind(Grammar::Node node, const Ends& begins) {
    Ends ends;
    for (const size_t begin : begins) ends.merge(Of(node, begin));
    return ends;
  }

  const Grammar& grammar_;
  const std::string_view text_;
  std::map<std::pair<int32_t, size_t>, Ends> known_;
};

// A random part of a rule; some of them are no good as grammars.
std::string RandomPart(std::mt19937& random, int depth) {
  const auto pick = [&](uint32_t count) { return random() % count; };
  std::string part;
  switch (depth == 0 ? pick(5) : pick(9)) {
    case 0:
      part = "\"a\"";
      break;
    case 1:
      part = "\"bé\"";
      break;
    case 2:
      part = "[a\\u00E9]";
      break;
    case 3:
      part = "[^b]";
      break;
    case 4:
    case 5:
      part = std::string("r") + std::to_string(pick(3));
      break;
    case 6:
      part = "(" + RandomPart(random, depth - 1) + " | " + RandomPart(random, depth - 1) + ")";
      break;
    default:
      part = "(" + RandomPart(random, depth - 1) + " " + RandomPart(random, depth - 1) + ")";
  }
  constexpr std::array kSigns = {"", "", "", "", "*", "?", "+", "{2}", "{1,3}", "{2,}"};
  return part + kSigns[pick(kSigns.size())];
}

// From `state` some text leads to an end; all rules of a grammar can end.
bool MayEnd(GrammarAutomaton& automaton, GrammarAutomaton::State state) {
  std::set<GrammarAutomaton::State> seen = {state};
  for (std::vector<GrammarAutomaton::State> open = {state}; !open.empty() && seen.size() < 300;) {
    std::vector<GrammarAutomaton::State> next;
    for (const auto each : open) {
      if (automaton.Complete(each)) return true;
      for (const char byte : std::string_view("abé")) {
        const auto to = automaton.Next(each, static_cast<uint8_t>(byte));
        if (to != GrammarAutomaton::kDead && seen.insert(to).second) next.push_back(to);
      }
    }
    open = std::move(next);
  }
  return seen.size() >= 300;
}

TEST(GrammarAutomaton, IsRightOnRandomGrammarsAndAllShortTexts) {
  std::vector<std::string> texts = {""};
  for (size_t begin = 0, length = 0; length < 5; ++length) {
    const size_t end = texts.size();
    for (; begin < end; ++begin) {
      for (const char* const c : {"a", "b", "é"}) texts.push_back(texts[begin] + c);
    }
  }
  std::mt19937 random(1);
  int grammars = 0, matches = 0;
  for (int i = 0; i < 200; ++i) {
    std::string gbnf = "root ::= r0\n";
    for (int rule = 0; rule < 3; ++rule) {
      gbnf += StrCat("r", rule, " ::= ", RandomPart(random, 2), " | ", RandomPart(random, 1), "\n");
    }
    if (ErrorOf(gbnf) != "-") continue;
    ++grammars;
    const Grammar grammar = ParseGbnf(gbnf);
    GrammarAutomaton automaton = Ready(gbnf);
    for (const std::string& text : texts) {
      const auto state = After(automaton, text);
      const bool right = Reference(grammar, text).Matches();
      ASSERT_EQ(automaton.Complete(state), right) << gbnf << text;
      if (right) ++matches;
      if (state != GrammarAutomaton::kDead) {
        ASSERT_TRUE(MayEnd(automaton, state)) << gbnf << text;
      }
    }
  }
  EXPECT_GT(grammars, 30);
  EXPECT_GT(matches, 1000);
}

TEST(GrammarAutomaton, CharactersAreExactlyTheirUtf8) {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    CodeRanges ranges;
    for (int k = 0; k < 3; ++k) {
      const uint32_t first = static_cast<uint32_t>(random() % kLastCodePoint) >> (random() % 16);
      ranges.push_back(
          {first, std::min(kLastCodePoint, first + static_cast<uint32_t>(random() % 5000))});
    }
    Grammar grammar;
    grammar.AddRule("root", grammar.Characters(ranges));
    GrammarAutomaton automaton(std::make_shared<GrammarProgram>(CompileGrammar(grammar)));
    const CodeRanges normal = Normalized(ranges);
    for (const CodeRange& range : normal) {
      for (const uint32_t c : {range.first - 1, range.first, range.last, range.last + 1,
                               range.first + (range.last - range.first) / 2}) {
        if (c > kLastCodePoint || (c >= 0xD800 && c <= 0xDFFF)) continue;
        std::string text;
        AppendUtf8(c, &text);
        const bool in = std::ranges::any_of(
            normal, [&](const CodeRange& r) { return c >= r.first && c <= r.last; });
        ASSERT_EQ(automaton.Complete(After(automaton, text)), in) << c;
      }
    }
  }
}

TEST(GrammarAutomaton, CountsExactlyHoweverMany) {
  for (const auto& [least, most] :
       {std::pair(0, 1000), {300, 300}, {700, 1000}, {5, 40000}, {257, -1}, {0, 257}, {256, 512}}) {
    GrammarAutomaton automaton =
        Ready(StrCat("root ::= [a-c]{", least, ",", most < 0 ? "" : StrCat(most), "} \"!\""));
    auto state = automaton.start();
    for (int i = 0; i <= (most < 0 ? 1000 : most); ++i) {
      ASSERT_EQ(automaton.Next(state, '!') != GrammarAutomaton::kDead, i >= least) << i;
      state = automaton.Next(state, 'b');
    }
    EXPECT_EQ(state == GrammarAutomaton::kDead, most >= 0);
  }
}

TEST(GrammarAutomaton, DeepRecursionAndForgetting) {
  GrammarAutomaton automaton = Ready("root ::= \"(\" root \")\" | \"[\" root \"]\" | \"x\"");
  auto state = automaton.start();
  constexpr int kDeep = 100000;
  for (int i = 0; i < kDeep; ++i) {
    state = automaton.Next(state, i % 3 == 0 ? '[' : '(');
    if (i % 5000 == 0) state = automaton.Forget(state);
    ASSERT_NE(state, GrammarAutomaton::kDead);
  }
  state = automaton.Next(state, 'x');
  for (int i = kDeep - 1; i >= 0; --i) {
    ASSERT_EQ(automaton.Next(state, i % 3 == 0 ? ')' : ']'), GrammarAutomaton::kDead);
    state = automaton.Next(state, i % 3 == 0 ? ']' : ')');
    if (i % 5000 == 0) state = automaton.Forget(state);
  }
  EXPECT_TRUE(automaton.Complete(state));
  // A list that goes on at its end needs no stack.
  GrammarAutomaton list = Ready("root ::= item | item \",\" root\nitem ::= [0-9]+");
  const auto once = After(list, "1,2,");
  EXPECT_EQ(After(list, "1,2,3,4,5,"), once);
}

TEST(GrammarAutomaton, TooManyWaysAreAnError) {
  // 2^30 stacks before the first byte.
  std::string gbnf = "root ::= r0\nr30 ::= \"x\"\n";
  for (int i = 0; i < 30; ++i) {
    gbnf += StrCat("r", i, " ::= r", i + 1, " \"a\" | r", i + 1, " \"b\"\n");
  }
  EXPECT_EQ(ErrorOf(gbnf), "grammar: too many ways to go on; it must be less ambiguous");
  std::string many = "root ::= \"\"";
  for (int i = 0; i < 1100; ++i) many += " ([a-z] [a-z]){256}";
  EXPECT_NE(ErrorOf(many).find("instructions"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::text
