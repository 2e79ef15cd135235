// What makes a grammar useless: rules that begin with themselves, rules that never end.
#pragma once

#include "thinwire/text/grammar.h"

namespace thinwire::text {

// UsageError naming the rule. Every rule that is called must have a body.
void CheckGrammar(const Grammar& grammar);

}  // namespace thinwire::text
