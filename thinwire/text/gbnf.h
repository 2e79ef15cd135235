// Grammars in the notation that llama.cpp calls GBNF.
//
//   # a comment
//   root  ::= greeting ", " name "!"? | "\u00A1" [^\n]{1,20}
//   name  ::= [A-Z] [a-z-]*
//   greeting ::= ("Hello" | "Hi") .
//
// Rules: name ::= alternatives, names of letters, digits, "-" and "_". Parts: "literal", [class],
// [^class], . (any character), name, (group), each with * + ? {m} {m,} {m,n} behind it. Escapes:
// \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH (code points). A rule ends with its line, but
// for what stands in parentheses, behind "::=" or "|", or before a line that begins with "|".
#pragma once

#include <string_view>

#include "thinwire/text/grammar.h"

namespace thinwire::text {

// UsageError with line and column for what is no grammar, a rule that is missing or there twice,
// and more than 1 MiB. The text must be what the rule "root" says.
Grammar ParseGbnf(std::string_view text);

}  // namespace thinwire::text
