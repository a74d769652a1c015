#include "models/deepseek_v41/tool_schema.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

template <typename Call>
std::string refusal_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request) << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
    return error.what();
  }
}

std::string check(std::string_view schema) {
  const Json json = io::parse_json(schema, "schema");
  return refusal_of([&] { check_schema(json, "s"); });
}

TEST(ToolSchema, KnowsTheKindsOfKeywords) {
  for (const char* good :
       {"{}", "true", R"({"type":["string","null"],"enum":[],"default":5,"unknown":5,"const":5})",
        R"({"minLength":0,"maxLength":1.0,"multipleOf":0.5,"minimum":-1,"uniqueItems":true})",
        R"({"items":false,"prefixItems":[{}],"anyOf":[{},true],"properties":{"a":{},"type":{}}})",
        R"({"required":[],"dependentRequired":{"a":["b"]},"dependencies":{"a":["b"],"c":{}}})",
        R"({"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"x","examples":[1]})",
        // Another draft, whose keywords have other kinds.
        R"({"$schema":"http://json-schema.org/draft-07/schema#","items":[{}]})"}) {
    EXPECT_EQ(check(good), "") << good;
  }
  const std::vector<std::pair<const char*, const char*>> bad = {
      {"5", "s: found '5', expected a schema"},
      {"[]", "s: found a list, expected a schema"},
      {R"({"type":"foo"})", "s.type: found 'foo', expected one of array, boolean"},
      {R"({"type":[]})", "s.type: found a list"},
      {R"({"type":["string","string"]})", "s.type: found a list"},
      {R"({"type":null})", "s.type: found 'null'"},
      {R"({"title":5})", "s.title: found '5', expected a string"},
      {R"({"description":{}})", "s.description: found an object, expected a string"},
      {R"({"enum":5})", "s.enum: found '5', expected a list"},
      {R"({"examples":{}})", "s.examples: found an object, expected a list"},
      {R"({"minimum":"x"})", "s.minimum: found 'x', expected a number"},
      {R"({"exclusiveMinimum":true})", "s.exclusiveMinimum: found 'true', expected a number"},
      {R"({"multipleOf":0})", "s.multipleOf: found '0', expected a number above 0"},
      {R"({"minLength":-1})", "s.minLength: found '-1', expected an integer of at least 0"},
      {R"({"maxItems":1.5})", "s.maxItems: found '1.5', expected an integer of at least 0"},
      {R"({"uniqueItems":1})", "s.uniqueItems: found '1', expected true or false"},
      {R"({"items":[{}]})", "s.items: found a list, expected a schema"},
      {R"({"anyOf":[]})", "s.anyOf: found an empty list"},
      {R"({"oneOf":{}})", "s.oneOf: found an object"},
      {R"({"allOf":[{},5]})", "s.allOf[1]: found '5', expected a schema"},
      {R"({"properties":[]})", "s.properties: found a list, expected an object"},
      {R"({"properties":{"a b":{"type":5}}})", "s.properties['a b'].type: found '5'"},
      {R"({"required":"a"})", "s.required: found 'a', expected a list of names"},
      {R"({"required":[1]})", "s.required: found '1', expected names"},
      {R"({"required":["a","a"]})", "s.required: names 'a' twice"},
      {R"({"dependentRequired":{"a":5}})", "s.dependentRequired['a']: found '5'"},
      {R"({"dependencies":{"a":[5]}})", "s.dependencies['a']: found '5', expected names"},
      {R"({"$defs":{"a":5}})", "s.$defs['a']: found '5', expected a schema"},
      {R"({"$vocabulary":5})", "s.$vocabulary: found '5', expected an object"},
      {R"({"if":5})", "s.if: found '5', expected a schema"}};
  for (const auto& [schema, message] : bad) {
    EXPECT_EQ(check(schema).rfind(message, 0), 0U) << schema << ": " << check(schema);
  }
}

TEST(ToolSchema, FollowsReferences) {
  for (const char* good :
       {R"({"$ref":"#"})", R"({"$ref":"","$defs":{"a/b~":{}},"items":{"$ref":"#/$defs/a~1b~0"}})",
        R"({"$defs":{"a b":{}},"items":{"$ref":"#/$defs/a%20b"}})",
        R"({"anyOf":[{},{"$ref":"#/anyOf/0"}]})",
        R"({"$defs":{"a":{"$anchor":"here"}},"items":{"$ref":"#here"}})",
        R"({"$id":"http://a/","items":{"$ref":"b"}})"}) {
    EXPECT_EQ(check(good), "") << good;
  }
  const std::vector<std::pair<const char*, const char*>> bad = {
      {R"({"$ref":5})", "s.$ref: found '5', expected a string"},
      {R"({"items":{"$ref":"#/$defs/a"}})", "s.items.$ref: '#/$defs/a' points at nothing"},
      {R"({"anyOf":[{},{"$ref":"#/anyOf/2"}]})", "s.anyOf[1].$ref: '#/anyOf/2' points at nothing"},
      {R"({"anyOf":[{},{"$ref":"#/anyOf/-1"}]})", "s.anyOf[1].$ref: '#/anyOf/-1' points at"},
      {R"({"$ref":"#there"})", "s.$ref: '#there' points at nothing"},
      {R"({"$ref":"http://a/b"})", "s.$ref: 'http://a/b' points outside the schema"},
      {R"({"$ref":"other.json"})", "s.$ref: 'other.json' points outside the schema"}};
  for (const auto& [schema, message] : bad) {
    EXPECT_EQ(check(schema).rfind(message, 0), 0U) << schema << ": " << check(schema);
  }
}

TEST(ToolSchema, BoundsTheWorkOfReferences) {
  std::string keys;
  std::string references;
  for (int i = 0; i < 20'000; ++i) {
    keys += str_cat(i == 0 ? "" : ",", "\"k", i, "\":{}");
    references += str_cat(i == 0 ? "" : ",", R"({"$ref":"#/$defs/k)", i, "\"}");
  }
  EXPECT_NE(check(str_cat(R"({"$defs":{)", keys, R"(},"anyOf":[)", references, "]}"))
                .find("too many references"),
            std::string::npos);
}

std::string strict(std::string_view schema) {
  return io::dump_python(strict_parameters(io::parse_json(schema, "schema"), "p"));
}

// Expected texts as deepseek-recipe 0.2.0 writes them, but for $defs.
TEST(StrictSchema, HasTheServingLibrarysNormalForm) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"required":["b","a"],"properties":{"a":{"type":"string"},"b":{"type":"null"}},)"
       R"("type":"object"})",
       R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "null"}}, )"
       R"("additionalProperties": false, "required": ["a", "b"]})"},
      {"null", R"({"type": "object", "properties": {}, "additionalProperties": false, )"
               R"("required": []})"},
      {R"({"type":"object","properties":{"a":{"type":"object","properties":{"c":{"type":)"
       R"("integer","multipleOf":2,"default":-5,"const":4,"enum":[1],"description":"D"}},)"
       R"("description":"E"}},"description":"F","title":"T","$schema":"s"})",
       R"({"type": "object", "properties": {"a": {"type": "object", "properties": {"c": {"type": )"
       R"("integer", "description": "D", "const": 4, "default": -5, "multipleOf": 2}}, )"
       R"("additionalProperties": false, "required": ["c"], "description": "E"}}, )"
       R"("additionalProperties": false, "required": ["a"], "description": "F"})"},
      {R"({"type":"object","properties":{"a":{"enum":["x"],"format":"uuid","pattern":"p",)"
       R"("minLength":1,"description":"D","type":"string"},"b":{"description":"L","type":"array",)"
       R"("items":{"type":["string","null"],"enum":["y"]},"minItems":1},"c":{"anyOf":[{"type":)"
       R"("boolean"},{"$ref":"#/$def/q","description":"R"}],"description":"A"}},"$def":{"q":)"
       R"({"type":"number","maximum":0.10,"minimum":1e5}}})",
       R"({"type": "object", "properties": {"a": {"type": "string", "description": "D", )"
       R"("pattern": "p", "format": "uuid", "enum": ["x"]}, "b": {"type": "array", "items": )"
       R"({"type": ["string", "null"]}, "description": "L"}, "c": {"anyOf": [{"type": "boolean"}, )"
       R"({"$ref": "#/$def/q"}], "description": "A"}}, "additionalProperties": false, )"
       R"("required": ["a", "b", "c"], "$def": {"q": {"type": "number", "minimum": 100000.0, )"
       R"("maximum": 0.1}}})"},
      {R"({"type":"object","properties":{"a":{"$ref":"#/$defs/q"}},"$defs":{"q":{"type":"object",)"
       R"("properties":{"z":{"type":"string"}}}}})",
       R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/q"}}, "additionalProperties": )"
       R"(false, "required": ["a"], "$defs": {"q": {"type": "object", "properties": {"z": {"type": )"
       R"("string"}}, "additionalProperties": false, "required": ["z"]}}})"}};
  for (const auto& [schema, expected] : cases) {
    SCOPED_TRACE(schema);
    EXPECT_EQ(strict(schema), expected);
    EXPECT_EQ(strict(expected), expected);
  }
}

TEST(StrictSchema, RefusesWhatStrictToolsCannotHave) {
  const auto property = [](std::string_view schema) {
    return str_cat(R"({"type":"object","properties":{"a":)", schema, "}}");
  };
  const std::vector<std::pair<std::string, const char*>> bad = {
      {"{}", "p: a schema of a strict tool needs one of 'type', 'anyOf', '$ref'"},
      {"true", "p: a schema of a strict tool needs"},
      {R"({"type":"string"})", "p: the parameters of a tool are an object"},
      {R"({"anyOf":[{"type":"string"}]})", "p: the parameters of a tool are an object"},
      {R"({"type":"object","properties":[]})", "p.properties: found a list"},
      {R"({"type":"object","properties":{"a":{"type":"null"}},"required":[]})",
       "p.required: does not name 'a'"},
      {R"({"type":"object","properties":{"a":{"type":"null"}},"required":["a","z"]})",
       "p.required: 'z' is named twice or is no property"},
      {R"({"type":"object","properties":{"a":{"type":"null"}},"required":["a","a"]})",
       "p.required: 'a' is named twice"},
      {R"({"type":"object","required":"a"})", "p.required: found a string"},
      {R"({"type":"object","additionalProperties":true})", "p.additionalProperties: is true"},
      {R"({"type":"object","additionalProperties":{}})", "p: 'additionalProperties' is an object"},
      {property(R"({"type":"object"})"), "p.properties['a']: a strict tool has no object without"},
      {property(R"({"type":"array"})"), "p.properties['a']: a list without 'items'"},
      {property(R"({"type":"array","items":true})"), "p.properties['a'].items: a schema of a"},
      {property(R"({"enum":["x"]})"), "p.properties['a']: a schema of a strict tool needs"},
      {property(R"({"type":"foo"})"), "p.properties['a'].type: found 'foo'"},
      {property(R"({"type":null})"), "p.properties['a'].type: found 'null'"},
      {property(R"({"type":["object","null"]})"), "p.properties['a'].type: 'object' in a list"},
      {property(R"({"type":"string","format":"date"})"),
       "p.properties['a'].format: unknown format"},
      {property(R"({"type":"string","enum":[1]})"), "p.properties['a'].enum: expected a list"},
      {property(R"({"type":"string","description":5})"),
       "p.properties['a']: 'description' is a number"},
      {property(R"({"type":"integer","default":1.5})"), "p.properties['a'].default: found '1.5'"},
      {property(R"({"type":"number","minimum":true})"), "p.properties['a'].minimum: found 'true'"},
      {property(R"({"anyOf":{}})"), "p.properties['a'].anyOf: found an object"},
      {property(R"({"$ref":5})"), "p.properties['a']: '$ref' is a number"},
      {property(R"({"$ref":"#/$defs/nope"})"),
       "p.properties['a'].$ref: '#/$defs/nope' points at nothing"}};
  for (const auto& [schema, message] : bad) {
    SCOPED_TRACE(schema);
    const std::string found = refusal_of([&] { strict(schema); });
    EXPECT_EQ(found.rfind(message, 0), 0U) << found;
  }
}

}  // namespace
}  // namespace tessera::deepseek_v41
