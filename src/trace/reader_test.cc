#include "trace/reader.h"

#include <gtest/gtest.h>

#include "trace/sinks.h"
#include "trace/test_files.h"

namespace tessera::trace {
namespace {

TraceInfo sample_info() {
  TraceInfo info;
  info.producer = "unit test";
  info.model = "abc";
  info.request = io::parse_json(R"({"name": "x", "prompt": "里有什么\n"})", "sample");
  info.calls = {{0, 3}, {3, 1}};
  info.tokens = {7, 8};
  info.activations = "bf16";
  info.index_keys = "reference";
  return info;
}

// A trace of the given tensors, one F32 value each.
void write_trace(const std::string& path, const TraceInfo& info,
                 const std::vector<std::pair<std::string, float>>& taps) {
  Writer writer(path);
  for (const auto& [name, value] : taps) {
    writer.add(name, view_of(&value, Shape{1}));
  }
  writer.set_info(info);
  writer.commit();
}

TEST(TraceInfo, RoundTrip) {
  const TraceInfo info = sample_info();
  const TraceInfo read = parse_trace_info(trace_metadata(info), "t");
  EXPECT_EQ(read.producer, info.producer);
  EXPECT_EQ(read.model, info.model);
  EXPECT_EQ(read.request.find("prompt")->text(), "里有什么\n");
  EXPECT_EQ(read.calls, info.calls);
  EXPECT_EQ(read.tokens, info.tokens);
  EXPECT_EQ(read.activations, info.activations);
  EXPECT_EQ(read.index_keys, info.index_keys);
  EXPECT_EQ(trace_metadata(TraceInfo{}), (Metadata{{"format", "trace/1"}}));
}

TEST(TraceInfo, OlderForms) {
  const TraceInfo info = parse_trace_info(
      {{"calls", R"([{"start": 0, "rows": 5}, {"rows": 1, "start": 5, "more": 0}])"},
       {"dtype", "torch.bfloat16"},
       {"seed", "1"}},
      "t");
  EXPECT_EQ(info.calls, (std::vector<TraceCall>{{0, 5}, {5, 1}}));
  EXPECT_EQ(info.activations, "bf16");
  EXPECT_TRUE(info.request.is_null());
  EXPECT_EQ(parse_trace_info({{"dtype", "float32"}, {"activations", "bf16"}}, "t").activations,
            "bf16");
}

TEST(TraceInfo, ValuesOfTheWrongForm) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"format", "pt"},
                                                        {"format", "trace/2"},
                                                        {"calls", ""},
                                                        {"calls", "[[0, 1], [1]]"},
                                                        {"calls", "[[0, 1, 2]]"},
                                                        {"calls", "[[-1, 1]]"},
                                                        {"calls", "[[0, 1.5]]"},
                                                        {"calls", "[[0, 99999999999999999999]]"},
                                                        {"calls", "[[9223372036854775807, 1]]"},
                                                        {"calls", R"([{"start": 0}])"},
                                                        {"calls", "{}"},
                                                        {"tokens", "[1, \"2\"]"},
                                                        {"tokens", "3"},
                                                        {"case", "[]"},
                                                        {"case", "{"},
                                                        {"dtype", "f8\n"},
                                                        {"index_keys", "mine"}}) {
    const std::string message = error_of([&] {
      parse_trace_info({{key, value}}, "a.safetensors");
    });
    EXPECT_EQ(message.find("a.safetensors: "), 0u) << key << '=' << value << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(TraceFile, ReadsTensorsAndMetadata) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const Tensor ids = tensor_of<int32_t>({3}, {-1, 0, 7});
  const Tensor sums = tensor_of<double>({1}, {1.0 / 3.0});
  const Tensor stream = tensor_of<bf16>({1, 2}, {to_bf16(1.5f), to_bf16(-2)});
  {
    Writer writer(path, {.storage = Storage::compact});
    writer.add("ids", ids.view());
    writer.add("sums", sums.view());
    writer.add("c0.layers.0", stream.view());
    writer.set_info(sample_info());
    writer.set_metadata("seed", "1");
    writer.commit();
  }
  const TraceFile trace(path);
  EXPECT_EQ(trace.name(), path);
  EXPECT_EQ(trace.names(), (std::vector<std::string_view>{"ids", "sums", "c0.layers.0"}));
  EXPECT_EQ(trace.taps(), trace.names());
  EXPECT_EQ(trace.info().calls.size(), 2u);
  ASSERT_NE(trace.metadata_value("seed"), nullptr);
  EXPECT_EQ(*trace.metadata_value("seed"), "1");
  EXPECT_EQ(trace.metadata_value("nothing"), nullptr);
  EXPECT_EQ(trace.find("c0.layers.0")->dtype, DType::bf16);
  EXPECT_FALSE(trace.find("c0"));
  EXPECT_EQ(trace.integers("ids"), (std::vector<int64_t>{-1, 0, 7}));
  EXPECT_EQ(trace.floats("c0.layers.0"), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(trace.doubles("sums"), (std::vector<double>{1.0 / 3.0}));
  EXPECT_THROW(trace.integers("c0.layers.0"), Error);
  EXPECT_THROW(trace.floats("sums"), Error);
  const std::string message = error_of([&] { trace.require("c1.norm"); });
  EXPECT_NE(message.find("'c1.norm'"), std::string::npos) << message;
}

TEST(TraceFile, OverlaysReplaceTensorsAndMetadata) {
  const TemporaryFolder folder;
  const std::string base = folder / "a.safetensors";
  const std::string first = folder / "b.safetensors";
  const std::string second = folder / "c.safetensors";
  TraceInfo info = sample_info();
  write_trace(base, info, {{"x", 1.0f}, {"y", 2.0f}});
  info.index_keys = "own";
  info.tokens = {7, 9};
  info.overlay_of = "a.safetensors";
  write_trace(first, info, {{"z", 30.0f}, {"y", 20.0f}});
  write_trace(second, TraceInfo{}, {{"y", 200.0f}});

  const TraceFile both(base + "," + first);
  EXPECT_EQ(both.names(), (std::vector<std::string_view>{"x", "y", "z"}));
  EXPECT_EQ(both.floats("x"), std::vector<float>{1});
  EXPECT_EQ(both.floats("y"), std::vector<float>{20});
  EXPECT_EQ(both.floats("z"), std::vector<float>{30});
  EXPECT_EQ(both.info().index_keys, "own");
  EXPECT_EQ(both.info().tokens, (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(both.info().producer, "unit test");
  EXPECT_EQ(both.info().overlay_of, "");
  EXPECT_EQ(*both.metadata_value("index_keys"), "own");

  const TraceFile all(base + "," + first + "," + second);
  EXPECT_EQ(all.floats("y"), std::vector<float>{200});
  EXPECT_EQ(all.info().index_keys, "own");
  EXPECT_EQ(TraceFile(first).info().overlay_of, "a.safetensors");
}

TEST(TraceFile, OverlaysOfSomethingElse) {
  const TemporaryFolder folder;
  const std::string base = folder / "a.safetensors";
  const std::string over = folder / "b.safetensors";
  write_trace(base, sample_info(), {{"x", 1.0f}});
  TraceInfo info = sample_info();
  info.model = "other";
  write_trace(over, info, {{"x", 2.0f}});
  EXPECT_NE(error_of([&] { TraceFile(base + "," + over); }).find("found model other"),
            std::string::npos);
  info = sample_info();
  info.calls = {{0, 4}};
  write_trace(over, info, {{"x", 2.0f}});
  EXPECT_NE(error_of([&] { TraceFile(base + "," + over); }).find("calls"), std::string::npos);
  EXPECT_THROW(TraceFile(base + ","), Error);
  EXPECT_THROW(TraceFile(base + "," + (folder / "none.safetensors")), Error);
}

TEST(TraceFile, ACommaMayBelongToTheName) {
  const TemporaryFolder folder;
  const std::string path = folder / "a,b.safetensors";
  write_trace(path, sample_info(), {{"x", 1.0f}});
  EXPECT_EQ(TraceFile(path).floats("x"), std::vector<float>{1});
}

TEST(TraceFile, AWholeTensorOverAnExcerpt) {
  const TemporaryFolder folder;
  const std::string base = folder / "a.safetensors";
  const std::string over = folder / "b.safetensors";
  {
    const Tensor rows = tensor_of<float>({1, 1}, {2});
    const Tensor sum = tensor_of<double>({1}, {3});
    Writer writer(base);
    writer.add("t.rows", rows.view());
    writer.add("t.group_sum", sum.view());
    writer.add("t.group_abs_sum", sum.view());
    writer.add("u.rows", rows.view());  // a tap that only looks like an excerpt
    writer.set_metadata("t", R"({"shape": [2, 1], "rows": [1]})");
    writer.set_metadata("group_rows", "64");
    writer.commit();
  }
  const TraceFile alone(base);
  EXPECT_EQ(alone.taps(), (std::vector<std::string_view>{"t", "u.rows"}));
  ASSERT_NE(alone.find_excerpt("t"), nullptr);
  EXPECT_EQ(alone.find_excerpt("t")->shape, (Shape{2, 1}));
  EXPECT_FALSE(alone.find("t"));
  write_trace(over, TraceInfo{}, {{"t", 1.0f}});
  const TraceFile both(base + "," + over);
  EXPECT_EQ(both.find_excerpt("t"), nullptr);
  EXPECT_EQ(both.taps(), (std::vector<std::string_view>{"u.rows", "t"}));
}

TEST(TraceFile, HostileFiles) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const auto message = [&](std::string_view header, std::string_view data) {
    write_raw_safetensors(path, header, data);
    return error_of([&] { TraceFile{path}; });
  };
  const std::string tensor = R"("x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})";
  EXPECT_EQ(message("{" + tensor + "}", "abcd"), "");
  for (const std::string& bad : {
           std::string("{"),
           std::string("[]"),
           std::string(R"({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})"),
           std::string(R"({"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})"),
           "{\"__metadata__\": {\"format\": \"pt\"}, " + tensor + "}",
           "{\"__metadata__\": {\"calls\": \"[[0]]\"}, " + tensor + "}",
           "{\"__metadata__\": {\"case\": \"nothing\"}, " + tensor + "}",
           "{\"__metadata__\": {\"calls\": [[0, 1]]}, " + tensor + "}",
       }) {
    const std::string found = message(bad, "abcd");
    EXPECT_EQ(found.find(path), 0u) << bad << ": " << found;
    EXPECT_EQ(found.find('\n'), std::string::npos) << found;
  }
  EXPECT_NE(message("{" + tensor + "}", "abc"), "");
}

TEST(TraceFile, HostileExcerpts) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const auto message = [&](std::string_view metadata, std::string_view second) {
    write_raw_safetensors(
        path,
        str_cat("{\"__metadata__\": {", metadata,
                R"(}, "t.rows": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}, )",
                R"("t.group_sum": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}, ")",
                second, R"(": {"dtype": "F64", "shape": [1], "data_offsets": [16, 24]}})"),
        std::string(24, '\0'));
    return error_of([&] { TraceFile{path}; });
  };
  const std::string good = R"("t": "{\"shape\": [3, 2], \"rows\": [2]}")";
  EXPECT_EQ(message(good + R"(, "group_rows": "64")", "t.group_abs_sum"), "");
  EXPECT_NE(message(good, "t.group_abs_sum"), "");  // no group_rows
  EXPECT_NE(message(good + R"(, "group_rows": "x")", "t.group_abs_sum"), "");
  EXPECT_NE(message(good + R"(, "group_rows": "2")", "t.group_abs_sum"), "");  // two groups
  EXPECT_NE(message(good + R"(, "group_rows": "64")", "other"), "");
  EXPECT_NE(message(R"("group_rows": "64", "t": "{\"shape\": [2, 2], \"rows\": [2]}")",
                    "t.group_abs_sum"),
            "");
  EXPECT_EQ(message(R"("group_rows": "64")", "t.group_abs_sum"), "");  // three plain tensors
}

}  // namespace
}  // namespace tessera::trace
