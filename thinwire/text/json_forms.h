// The grammar of JSON texts, in pieces: what json_schema.h puts together.
//
// Every piece is a part of what RFC 8259 allows, so that a text stays short: white space is one
// space, or behind brackets and commas a new line and what indents it; numbers have at most 16
// digits before the point and behind it and an exponent of at most two.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/text/grammar.h"

namespace thinwire::text {

class JsonForms {
 public:
  using Node = Grammar::Node;

  // `grammar` must outlive this.
  explicit JsonForms(Grammar& grammar) : grammar_(grammar) {}

  Node Space();
  Node Value();
  Node Object();                                                     // with any values
  Node String(int64_t least = 0, int64_t most = Grammar::kNoLimit);  // of so many characters
  Node Number();

  // A string of this content, as below.
  Node Quoted(Node content);
  // A character in any of the ways that it can be written in a string.
  Node AnyCharacter();
  // One character of these, in one way of writing it: itself, or the shortest escape.
  Node Character(const CodeRanges& ranges);
  // The text of a JSON value.
  Node Literal(std::string json) { return grammar_.Literal(std::move(json)); }
  // A string that is none of these.
  Node OtherString(const std::set<std::string>& strings);

  // "[" and values one after another "]": `first` has those at the beginning, the first `needed` of
  // which cannot be left out; then from `least` to `most` of `rest`, which is none where `most` is
  // 0.
  struct Elements {
    std::vector<Node> first = {};
    size_t needed = 0;
    Node rest = -1;
    int64_t least = 0, most = 0;
  };
  Node Array(const Elements& elements);

  // "{" and members in this order "}", each a key with what follows it, some of which may be left
  // out; then any number of `others`, where it is not -1.
  struct Member {
    Node text;
    bool needed;
  };
  Node ObjectOf(const std::vector<Member>& members, Node others);
  // A key as it stands in a text, the colon, and its value.
  Node Pair(Node key, Node value);

 private:
  // The rule of this name, made when it is first asked for.
  template <typename Make>
  Node Rule(const char* name, const Make& make);
  Node Comma();
  Node Brackets(const char* open, Node content, const char* close);

  Grammar& grammar_;
  std::map<std::string, int32_t, std::less<>> rules_;
  std::map<std::vector<uint32_t>, int32_t> characters_;
};

}  // namespace thinwire::text
