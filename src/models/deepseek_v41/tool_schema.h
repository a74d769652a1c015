// JSON schemas of tools and response formats: are they well formed, and the normal form of strict
// tools. Chat specification section 8; reference: deepseek-recipe 0.2.0.
#pragma once

#include <string_view>

#include "io/json.h"

namespace tessera::deepseek_v41 {

// `schema` is an object or a boolean, its keywords have values of the kinds that JSON Schema
// 2020-12 gives them, and its references point into it. Not checked: whether `pattern` is a regular
// expression, schemas under a `$schema` of another draft, references if there is an `$id`. Throws
// Error{bad_request} with the path of the keyword.
void check_schema(const io::Json& schema, std::string_view where);

// The parameters of a strict tool as deepseek-recipe writes them: every object gets
// "additionalProperties": false and a "required" that names all of its properties. Only the
// keywords that strict tools have are kept (docs/prompts.md), in a fixed order; other than
// deepseek-recipe it keeps $defs and definitions, which references need. A null is an object
// without properties. Throws Error{bad_request} for a schema outside that subset: an object below
// the top without properties, with additionalProperties, or whose own "required" differs; a part
// without type, anyOf or $ref; a list without items; ...
io::Json strict_parameters(const io::Json& schema, std::string_view where);

}  // namespace tessera::deepseek_v41
