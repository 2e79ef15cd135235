// A context-free grammar as a tree: what notations (gbnf.h, json_schema.h) build and
// grammar_program.h compiles.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::text {

// Code points from first to last, both included.
struct CodeRange {
  uint32_t first = 0;
  uint32_t last = 0;
  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};

using CodeRanges = std::vector<CodeRange>;

constexpr uint32_t kLastCodePoint = 0x10FFFF;

// Sorted, without overlaps, without surrogates (which UTF-8 does not have).
CodeRanges Normalized(CodeRanges ranges);
// All others, normalized.
CodeRanges Complement(const CodeRanges& ranges);
// What both have, normalized.
CodeRanges Intersection(const CodeRanges& a, const CodeRanges& b);

// For messages of one line: other characters of texts that users gave are "?".
std::string Printable(std::string_view text);

class Grammar {
 public:
  // A piece of the tree. One may stand at several places.
  using Node = int32_t;
  static constexpr int64_t kNoLimit = -1;
  // UsageError beyond: of nodes, and of the bytes of all literals.
  static constexpr size_t kMostNodes = 1 << 18;

  enum class Kind : uint8_t { kLiteral, kCharacters, kSequence, kChoice, kRepeat, kRule };
  struct Part {
    Kind kind = Kind::kSequence;
    int32_t index = 0;             // kLiteral, kCharacters: into literals, classes; kRule: which
    std::vector<Node> parts = {};  // kSequence, kChoice; kRepeat: the one
    int64_t least = 0, most = 0;   // kRepeat
  };
  struct Rule {
    std::string name;
    Node body = -1;
  };

  Node Literal(std::string text);
  // One character of these.
  Node Characters(CodeRanges ranges);
  // One after the other; of no parts: the empty text.
  Node Sequence(std::vector<Node> parts);
  // One of them, at least one is needed.
  Node Choice(std::vector<Node> parts);
  // At most kMostRepeats times, but for kNoLimit. What it compiles to is of the size of the square
  // root of the numbers.
  static constexpr int64_t kMostRepeats = 50000;
  Node Repeat(Node part, int64_t least, int64_t most = kNoLimit);
  Node Optional(Node part) { return Repeat(part, 0, 1); }

  // A rule and its body; the body may be told later, so that it can call the rule.
  int32_t AddRule(std::string name, Node body = -1);
  void Define(int32_t rule, Node body) { rules_[static_cast<size_t>(rule)].body = body; }
  Node Call(int32_t rule);

  // What a text must be. The first rule that was added where nothing else is said.
  int32_t root() const { return root_; }
  void SetRoot(int32_t rule) { root_ = rule; }

  const std::vector<Rule>& rules() const { return rules_; }
  const Part& part(Node node) const { return nodes_[static_cast<size_t>(node)]; }
  const std::string& literal(int32_t index) const { return literals_[static_cast<size_t>(index)]; }
  const CodeRanges& characters(int32_t index) const { return classes_[static_cast<size_t>(index)]; }

 private:
  Node Add(Part part);
  Node Exactly(Node part, int64_t times);

  std::vector<Rule> rules_;
  std::vector<Part> nodes_;
  std::vector<std::string> literals_;
  std::vector<CodeRanges> classes_;
  size_t literal_bytes_ = 0;
  int32_t root_ = 0;
};

}  // namespace thinwire::text
