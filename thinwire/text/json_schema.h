// JSON Schema (2020-12) as a grammar: every text of it is a document that the schema accepts.
//
//   type enum const $ref ("#" and what lies below, recursive too)
//   properties required additionalProperties      objects
//   items prefixItems minItems maxItems            arrays
//   minLength maxLength | pattern | format         strings: date time date-time uuid ipv4 email
//   minimum maximum exclusiveMinimum exclusiveMaximum    whole bounds
//   anyOf, oneOf where no document fits two alternatives, allOf where the parts can be one
//
// Titles, descriptions, defaults and examples say nothing of what is accepted and are passed over;
// every other keyword is an error that names where it stands, never left out.
//
// Not everything that is accepted is a text of the grammar: members come in the order of the
// schema, those that it does not name only where additionalProperties is there and does not refuse
// them (or where it names none), and see json_forms.h.
#pragma once

#include <string_view>

#include "thinwire/text/grammar.h"

namespace thinwire::text {

// Of the schema's text, of at most 128 KiB. UsageError that names the place in the schema ("JSON
// schema: #/properties/name/minLength: ...").
Grammar GrammarOfSchema(std::string_view schema);
// Any JSON object.
Grammar GrammarOfJsonObjects();

}  // namespace thinwire::text
