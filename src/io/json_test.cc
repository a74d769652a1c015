#include "io/json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera::io {
namespace {

std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "f.json", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_TRUE(is_valid_utf8(message));
    return message;
  }
  return "no error";
}

std::string round_trip(std::string_view text) { return dump_compact(parse_json(text, "f.json")); }

TEST(Json, KindsAndValues) {
  const Json json = parse_json(
      " {\"z\": null, \"a\": [true, false, 12, -3.5e2, \"图\\u00e9\\ud83c\\udf85\\n\"], "
      "\"empty\": {}} ",
      "f.json");
  ASSERT_TRUE(json.is_object());
  ASSERT_EQ(json.members().size(), 3U);
  EXPECT_EQ(json.members()[0].first, "z");  // input order
  EXPECT_TRUE(json.members()[0].second.is_null());
  const Json* a = json.find("a");
  ASSERT_NE(a, nullptr);
  ASSERT_EQ(a->items().size(), 5U);
  EXPECT_EQ(a->items()[0].as_boolean(), true);
  EXPECT_EQ(a->items()[1].as_boolean(), false);
  EXPECT_EQ(a->items()[2].as_int64(), 12);
  EXPECT_TRUE(a->items()[2].is_integer());
  EXPECT_EQ(a->items()[3].as_double(), -350.0);
  EXPECT_EQ(a->items()[3].as_int64(), std::nullopt);
  EXPECT_EQ(a->items()[4].text(), "图é🎅\n");
  EXPECT_EQ(json.find("none"), nullptr);
  EXPECT_EQ(json.as_double(), std::nullopt);
  EXPECT_EQ(a->items()[4].as_double(), std::nullopt);
}

TEST(Json, NumbersKeepTheirSpelling) {
  for (const std::string_view number : {"0",
                                        "-0",
                                        "-0.0",
                                        "1e5",
                                        "1E5",
                                        "1E+05",
                                        "1.0",
                                        "1.50",
                                        "-1",
                                        "123456789012345678901234",
                                        "-123456789012345678901234",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "0.1000000000000000055511151231257827",
                                        "1e-400",
                                        "4.9e-324",
                                        "1.7976931348623157e308",
                                        "0e0",
                                        "-0e-0"}) {
    EXPECT_EQ(parse_json(number, "f.json").text(), number);
    EXPECT_EQ(round_trip(str_cat("[", number, ",{\"x\":", number, "}]")),
              str_cat("[", number, ",{\"x\":", number, "}]"));
  }
}

TEST(Json, IntegersAreExact) {
  const Json json =
      parse_json("[9007199254740993, 9223372036854775807, 9223372036854775808, -0, 1.0]", "f.json");
  EXPECT_EQ(json.items()[0].as_int64(), 9007199254740993);  // 2^53 + 1
  EXPECT_EQ(json.items()[1].as_int64(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(json.items()[2].as_int64(), std::nullopt);
  EXPECT_EQ(json.items()[2].as_uint64(), 9223372036854775808U);
  EXPECT_EQ(json.items()[2].as_double(), 9223372036854775808.0);
  EXPECT_EQ(json.items()[3].as_int64(), 0);
  EXPECT_EQ(json.items()[3].as_uint64(), 0U);
  EXPECT_EQ(json.items()[4].as_int64(), std::nullopt);
  EXPECT_EQ(Json::number(int64_t{-5}).as_uint64(), std::nullopt);
}

TEST(Json, DoublesThatUnderflowAreZero) {
  EXPECT_EQ(parse_json("1e-400", "f.json").as_double(), 0.0);
  EXPECT_FALSE(std::signbit(*parse_json("1e-400", "f.json").as_double()));
  EXPECT_TRUE(std::signbit(*parse_json("-0.001e-99999999999999999999", "f.json").as_double()));
  EXPECT_EQ(parse_json("4.9e-324", "f.json").as_double(), 5e-324);
  EXPECT_EQ(parse_json(str_cat("0.", std::string(400, '0'), "1"), "f.json").as_double(), 0.0);
  EXPECT_EQ(Json::number_spelled("1e400").as_double(), std::nullopt);
  EXPECT_EQ(Json::number_spelled(std::string(400, '9')).as_double(), std::nullopt);
}

TEST(Json, PythonRepr) {
  // Values: repr() of CPython 3.11.
  const std::pair<double, const char*> samples[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {-1.5, "-1.5"},
      {0.1, "0.1"},
      {100.0, "100.0"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {9999999999999998.0, "9999999999999998.0"},
      {123456789012345680.0, "1.2345678901234568e+17"},
      {1234567890123456.8, "1234567890123456.8"},
      {1e-4, "0.0001"},
      {1e-5, "1e-05"},
      {0.00012345, "0.00012345"},
      {0.000012345, "1.2345e-05"},
      {1e22, "1e+22"},
      {1e100, "1e+100"},
      {-2.5e-100, "-2.5e-100"},
      {5e-324, "5e-324"},
      {2.2250738585072014e-308, "2.2250738585072014e-308"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {0.30000000000000004, "0.30000000000000004"},
      {1.0 / 3.0, "0.3333333333333333"},
      {2.0 / 3.0, "0.6666666666666666"},
      {static_cast<double>(0.1f), "0.10000000149011612"},
      {9007199254740993.0, "9007199254740992.0"},
      {5e-5, "5e-05"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {std::numeric_limits<double>::quiet_NaN(), "nan"}};
  for (const auto& [value, expected] : samples) {
    EXPECT_EQ(python_repr(value), expected);
  }
}

TEST(Json, PythonReprReadsBackTheSameDouble) {
  uint64_t bits = 88172645463325252U;  // xorshift64
  for (int i = 0; i < 100'000; ++i) {
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    const double value = std::bit_cast<double>(bits);
    if (std::isfinite(value)) {
      ASSERT_EQ(Json::number(value).as_double(), value) << python_repr(value);
    }
    const double moderate = static_cast<double>(static_cast<int64_t>(bits) >> 20) / 1024.0;
    ASSERT_EQ(Json::number(moderate).as_double(), moderate) << python_repr(moderate);
  }
}

TEST(Json, DumpPythonWritesWhatJsonDumpsWrites) {
  const Json json = parse_json(
      "{\"b\":[1,-0,1e5,1E-7,0.10,123456789012345678901234,1e-400,[],{}],\"键\":\"值\\u0000\\u001f"
      "\\u007f\\\"\\\\\\/\\b\\f\\n\\r\\t\\u2028\",\"a\":true,\"n\":null,\"f\":false}",
      "f.json");
  // json.dumps(json.loads(TEXT), ensure_ascii=False) of CPython 3.11.
  EXPECT_EQ(dump_python(json),
            "{\"b\": [1, 0, 100000.0, 1e-07, 0.1, 123456789012345678901234, 0.0, [], {}], "
            "\"键\": \"值\\u0000\\u001f\x7f\\\"\\\\/\\b\\f\\n\\r\\t\xe2\x80\xa8\", \"a\": true, "
            "\"n\": null, \"f\": false}");
  EXPECT_EQ(dump_python(Json::number(std::numeric_limits<double>::infinity())), "Infinity");
  EXPECT_EQ(dump_python(Json::number(-std::numeric_limits<double>::infinity())), "-Infinity");
  EXPECT_EQ(dump_python(Json::number(std::numeric_limits<double>::quiet_NaN())), "NaN");
}

TEST(Json, DumpCompactIsJson) {
  Json json = Json::object();
  json.set("a", Json::array({Json::number(1.5), Json::number(int64_t{-7}), Json()}));
  json.set("b", Json::boolean(true)) = Json::string("x\"\x01");
  json.set("a", Json::number_spelled("1e3"));
  EXPECT_EQ(dump_compact(json), "{\"a\":1e3,\"b\":\"x\\\"\\u0001\"}");
  EXPECT_EQ(dump_compact(Json::number(std::numeric_limits<double>::quiet_NaN())), "null");
}

TEST(Json, SyntaxErrorsNameTheLine) {
  EXPECT_EQ(refusal("{\n\"a\": 1,\n\"b\" 2}"),
            "f.json: line 3: not valid JSON: syntax error while parsing object separator - "
            "unexpected number literal; expected ':', at '2'");
  EXPECT_EQ(refusal("[1,\n2,\n"),
            "f.json: line 3: not valid JSON: syntax error while parsing value - unexpected end of "
            "input; expected '[', '{', or a literal, at the end of the text");
  EXPECT_EQ(refusal("{} x").substr(0, 31), "f.json: line 1: not valid JSON:");
  EXPECT_EQ(refusal("[\"a\nb\"]").substr(0, 16), "f.json: line 1: ");
  EXPECT_EQ(refusal(""), "f.json: is empty, expected a JSON value");
  EXPECT_EQ(refusal(" \n"), "f.json: is empty, expected a JSON value");
}

TEST(Json, RefusesWhatIsNotRfc8259) {
  for (const std::string_view bad : {"NaN",         "Infinity",    "-Infinity",
                                     "[NaN]",       "nul",         "tru",
                                     "01",          "+1",          "1.",
                                     ".5",          "1e",          "0x1",
                                     "'a'",         "{a:1}",       "[1,]",
                                     "{\"a\":1,}",  "[1 2]",       "\"\\x41\"",
                                     "\"\t\"",      "\"abc",       "[",
                                     "]",           "{} {}",       "// c\n1",
                                     "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
                                     "\"\\u12\""}) {
    EXPECT_EQ(refusal(bad).substr(0, 31), "f.json: line 1: not valid JSON:") << bad;
  }
  // A zero byte ends C strings; it must not end the text.
  EXPECT_EQ(refusal(std::string_view("[1]\n\0x", 6)),
            "f.json: line 2: not valid JSON: a zero byte");
  EXPECT_EQ(refusal(std::string_view("\"\0\"", 3)), "f.json: line 1: not valid JSON: a zero byte");
}

TEST(Json, RefusesInvalidUtf8) {
  for (const std::string_view bad : {"\"\x80\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xff\"",
                                     "\"\xe5\x9b\"", "\"\xf4\x90\x80\x80\"", "\xff", "[\xe5]"}) {
    EXPECT_EQ(refusal(bad).substr(0, 31), "f.json: line 1: not valid JSON:") << quoted(bad);
  }
}

TEST(Json, RefusesNumbersBeyondDouble) {
  EXPECT_EQ(refusal("[\n1e400]"), "f.json: line 2: the number '1e400' is too large for a double");
  EXPECT_NE(refusal(std::string(400, '9')).find("is too large"), std::string::npos);
}

TEST(Json, AByteOrderMarkIsSkipped) { EXPECT_EQ(round_trip("\xef\xbb\xbf[1]"), "[1]"); }

TEST(Json, DuplicateKeys) {
  const std::string_view text =
      "{\"a\": 1,\n\"b\": {\"c\": 0, \"d\": 1},\n\"\\u0061\": 2,\n\"b\": 3}";
  EXPECT_EQ(refusal(text), "f.json: line 3: the key 'a' appears twice in one object");
  EXPECT_EQ(refusal("[{\"a\":1},\n{\"x\":{\"k\":1,\n\"k\":2}}]"),
            "f.json: line 3: the key 'k' appears twice in one object");
  EXPECT_EQ(round_trip("[{\"a\":1},{\"a\":{\"a\":2}}]"), "[{\"a\":1},{\"a\":{\"a\":2}}]");
  JsonLimits limits;
  limits.allow_duplicate_keys = true;  // as json.loads: first place, last value
  EXPECT_EQ(dump_compact(parse_json(text, "f.json", limits)), "{\"a\":2,\"b\":3}");
  EXPECT_EQ(dump_compact(parse_json("{\"x\":1,\"x\":2,\"y\":3,\"x\":[4]}", "f.json", limits)),
            "{\"x\":[4],\"y\":3}");
}

// `keys` as an object whose values are 0, 1, ..., one member a line.
std::string object_text(const std::vector<std::string>& keys) {
  std::string text = "{";
  for (size_t i = 0; i < keys.size(); ++i) {
    text += str_cat(i == 0 ? "" : ",\n", "\"", keys[i], "\":", i);
  }
  return text + "}";
}

void expect_duplicates_are_found(std::vector<std::string> keys) {
  const Json json = parse_json(object_text(keys), "f.json");
  ASSERT_EQ(json.members().size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(json.members()[i].first, keys[i]);
    ASSERT_EQ(json.members()[i].second.as_int64(), static_cast<int64_t>(i));
  }
  const std::string repeated = keys[keys.size() / 3];
  keys.insert(keys.begin() + static_cast<std::ptrdiff_t>(keys.size() - 2), repeated);
  EXPECT_EQ(refusal(object_text(keys)),
            str_cat("f.json: line ", keys.size() - 2, ": the key ", tessera::quoted(repeated),
                    " appears twice in one object"));
  JsonLimits limits;
  limits.allow_duplicate_keys = true;
  const Json kept = parse_json(object_text(keys), "f.json", limits);
  EXPECT_EQ(kept.members().size(), keys.size() - 1);
  EXPECT_EQ(kept.find(repeated)->as_int64(), static_cast<int64_t>(keys.size() - 3));
}

TEST(Json, DuplicatesAmongManyKeys) {
  std::vector<std::string> keys;
  for (int i = 0; i < 100'000; ++i) {
    keys.push_back(str_cat("k", (i * 7919) % 100'000));
  }
  expect_duplicates_are_found(keys);
}

// Keys whose hashes end alike share one place of a hash table, and their number makes it slow.
TEST(Json, DuplicatesAmongKeysThatCollide) {
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < 300; ++i) {
    const std::string key = str_cat("k", i);
    if ((std::hash<std::string_view>()(key) >> 1) % 1024 == 7) {
      keys.push_back(key);
    }
  }
  expect_duplicates_are_found(keys);
}

TEST(Json, ManyValuesKeepTheirOrder) {
  for (const size_t count : {1023U, 1024U, 1025U, 16'384U, 70'000U}) {
    std::string text = "[";
    for (size_t i = 0; i < count; ++i) {
      text += str_cat(i == 0 ? "" : ",", i % 10);
    }
    text += "]";
    EXPECT_EQ(round_trip(text), text);
  }
}

TEST(Json, CopiesAreDeepAndMovesLeaveNothingShared) {
  const Json original = parse_json("{\"a\":[1,{\"b\":\"text\"}],\"c\":null}", "f.json");
  const std::string text = dump_compact(original);
  Json copy = original;
  copy.members()[0].second.items()[1].set("b", Json::boolean(true));
  EXPECT_EQ(dump_compact(original), text);
  EXPECT_EQ(dump_compact(copy), "{\"a\":[1,{\"b\":true}],\"c\":null}");
  copy = original;
  EXPECT_EQ(dump_compact(copy), text);
  copy = Json(copy.members()[0].second);  // a part of itself
  EXPECT_EQ(dump_compact(copy), "[1,{\"b\":\"text\"}]");
  copy = copy.items()[1];
  EXPECT_EQ(dump_compact(copy), "{\"b\":\"text\"}");
  const Json moved = std::move(copy);
  EXPECT_EQ(dump_compact(moved), "{\"b\":\"text\"}");
}

TEST(Json, OtherKindsHaveNoChildren) {
  for (const char* text : {"null", "true", "1", "\"x\"", "{}", "[]"}) {
    const Json json = parse_json(text, "f.json");
    EXPECT_TRUE(json.items().empty());
    EXPECT_TRUE(json.members().empty());
    EXPECT_EQ(json.find("x"), nullptr);
    Json changeable = json;
    EXPECT_TRUE(changeable.items().empty());
    EXPECT_TRUE(changeable.members().empty());
    EXPECT_EQ(dump_compact(changeable), text);
  }
}

TEST(Json, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(round_trip(nested(128)), nested(128));
  EXPECT_EQ(refusal(nested(129)), "f.json: line 1: nested deeper than 128 levels");
  EXPECT_EQ(refusal("{\"a\":\n" + std::string(128, '[')).substr(0, 40),
            "f.json: line 2: nested deeper than 128 l");
  // A hostile depth and a careless limit: parsing, dumping and destruction stay on the stack.
  JsonLimits limits;
  limits.max_depth = std::numeric_limits<int>::max();
  EXPECT_EQ(refusal(std::string(10'000'000, '['), limits),
            "f.json: line 1: nested deeper than 1000 levels");
  const Json deep = parse_json(nested(1000), "f.json", limits);
  const Json copy = deep;
  EXPECT_EQ(dump_python(copy), nested(1000));
}

TEST(Json, SizeIsLimited) {
  JsonLimits limits;
  limits.max_bytes = 8;
  EXPECT_EQ(dump_compact(parse_json("[1,2,34]", "f.json", limits)), "[1,2,34]");
  EXPECT_EQ(refusal("[1,2,345]", limits), "f.json: 9 bytes of JSON, at most 8 are accepted");
}

TEST(Json, MessagesStayShort) {
  const std::string message = refusal("[\"" + std::string(1'000'000, 'x') + "\xff\"]");
  EXPECT_LT(message.size(), 300U);
  EXPECT_NE(message.find("\\xff"), std::string::npos) << message;
}

TEST(Json, FilesAreNamedInMessages) {
  std::string pattern = testing::TempDir() + "json_XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  std::ofstream(folder + "/config.json") << "{\"a\": [1,\n2}";
  std::ofstream(folder + "/good.json") << "{\"a\": 1}\n";
  EXPECT_EQ(dump_compact(read_json_file(folder + "/good.json")), "{\"a\":1}");
  try {
    read_json_file(folder + "/config.json");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find(folder + "/config.json: line 2: not valid JSON: "),
              0U);
  }
  EXPECT_THROW(read_json_file(folder + "/none.json"), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::io
