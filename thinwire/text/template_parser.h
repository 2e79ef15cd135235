// Tokens of a template to its statements.
#pragma once

#include <string>

#include "thinwire/text/template_ast.h"

namespace thinwire::text {

// `source` as NormalizeTemplate makes it. TemplateError: what is no template, and what Jinja has
// but this engine has not (include, import, extends, block, recursive loops, * and ** in calls),
// unknown filters and tests among it.
Block ParseTemplate(const std::string& source);

}  // namespace thinwire::text
