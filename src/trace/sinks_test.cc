#include "trace/sinks.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "trace/convert.h"
#include "trace/test_files.h"

namespace tessera::trace {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A trace with one tap of each kind of storage.
class SinksTest : public testing::Test {
 protected:
  SinksTest() {
    Writer writer(path_, {.storage = Storage::compact});
    writer.add("c0.embed", embed_.view());
    writer.add("c0.layers.0", stream_.view());
    writer.add("c0.layers.0.ffn.gate.topk", topk_.view());
    writer.add("c0.layers.0.attn.indexer.candidates", mask_.view());
    writer.commit();
    reference_ = std::make_unique<TraceFile>(path_);
  }
  const TraceFile& reference() const { return *reference_; }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "reference.safetensors";
  Tensor embed_ = tensor_of<float>({2, 2}, {1, 2, 3, 4.0009765625f});
  Tensor stream_ = tensor_of<bf16>({2}, {to_bf16(1.5f), to_bf16(-2)});
  Tensor topk_ = tensor_of<int32_t>({2, 2}, {-1, 3, 0, 7});
  Tensor mask_ = tensor_of<uint8_t>({1, 3}, {1, 0, 1});
  std::unique_ptr<TraceFile> reference_;
};

TEST_F(SinksTest, WriterStoresWideByDefault) {
  const std::string path = folder_ / "wide.safetensors";
  Writer writer(path);
  EXPECT_FALSE(writer.tap("embed", embed_.mutable_view()));
  writer.tap("stream", stream_.mutable_view());
  writer.tap("topk", topk_.mutable_view());
  writer.tap("mask", mask_.mutable_view());
  std::vector<int64_t> ids = {int64_t{1} << 40};
  writer.tap("ids", mutable_view_of(ids.data(), Shape{1}));
  std::vector<uint16_t> halves = {0x3c00};
  writer.tap("half", {reinterpret_cast<std::byte*>(halves.data()), DType::f16, Shape{1}});
  std::vector<float> nothing;
  writer.tap("none", mutable_view_of(nothing.data(), Shape{0, 4}));
  writer.commit();

  const TraceFile trace(path);
  EXPECT_EQ(trace.find("embed")->dtype, DType::f32);
  EXPECT_EQ(trace.find("stream")->dtype, DType::f32);
  EXPECT_EQ(trace.find("topk")->dtype, DType::i32);
  EXPECT_EQ(trace.find("mask")->dtype, DType::i32);
  EXPECT_EQ(trace.find("ids")->dtype, DType::i64);
  EXPECT_EQ(trace.floats("embed"), to_floats(embed_.view()));
  EXPECT_EQ(trace.floats("stream"), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(trace.integers("topk"), (std::vector<int64_t>{-1, 3, 0, 7}));
  EXPECT_EQ(trace.integers("mask"), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(trace.integers("ids"), ids);
  EXPECT_EQ(trace.floats("half"), std::vector<float>{1});
  EXPECT_EQ(trace.find("none")->shape, (Shape{0, 4}));
  EXPECT_EQ(trace.find("mask")->shape, (Shape{1, 3}));
  // The compact form says the same.
  EXPECT_EQ(reference().find("c0.layers.0")->dtype, DType::bf16);
  EXPECT_EQ(reference().find("c0.layers.0.attn.indexer.candidates")->dtype, DType::u8);
  EXPECT_EQ(compare(*reference().find("c0.layers.0"), *trace.find("stream")).changed, 0);
}

TEST_F(SinksTest, WriterTakesOnlyWantedTapsAndEachOnce) {
  const std::string path = folder_ / "some.safetensors";
  Writer writer(path, {.globs = "*.topk"});
  EXPECT_FALSE(writer.wants("c0.embed"));
  EXPECT_TRUE(writer.wants("c0.layers.0.ffn.gate.topk"));
  writer.tap("c0.embed", embed_.mutable_view());
  writer.tap("c0.layers.0.ffn.gate.topk", topk_.mutable_view());
  const std::string message =
      error_of([&] { writer.tap("c0.layers.0.ffn.gate.topk", topk_.mutable_view()); });
  EXPECT_NE(message.find("'c0.layers.0.ffn.gate.topk' again"), std::string::npos) << message;
  writer.commit();
  EXPECT_EQ(TraceFile(path).names(), (std::vector<std::string_view>{"c0.layers.0.ffn.gate.topk"}));
}

TEST_F(SinksTest, WithoutCommitNoFileAppears) {
  const std::string path = folder_ / "dropped.safetensors";
  {
    Writer writer(path);
    writer.tap("c0.embed", embed_.mutable_view());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(Writer(folder_ / "missing/a.safetensors"), Error);
}

TEST_F(SinksTest, ComparerReportsDifferences) {
  Comparer comparer(reference());
  EXPECT_TRUE(comparer.wants("c0.embed"));
  EXPECT_FALSE(comparer.wants("c0.unknown"));
  std::vector<float> ours = {1, 2, 3, 4};
  EXPECT_FALSE(comparer.tap("c0.embed", mutable_view_of(ours.data(), Shape{2, 2})));
  std::vector<float> stream = {1.5f, kNan};
  comparer.tap("c0.layers.0", mutable_view_of(stream.data(), Shape{2}));
  std::vector<int64_t> topk = {-1, 3, 0, 7, 8, 9};
  comparer.tap("c0.layers.0.ffn.gate.topk", mutable_view_of(topk.data(), Shape{2, 3}));

  ASSERT_EQ(comparer.differences().size(), 3u);
  const TapDifference& embed = comparer.differences()[0];
  EXPECT_EQ(embed.name, "c0.embed");
  EXPECT_EQ(embed.kind, TapKind::value);
  EXPECT_TRUE(embed.same_shape());
  EXPECT_EQ(embed.metrics.elements, 4);
  EXPECT_EQ(embed.metrics.changed, 1);
  EXPECT_EQ(embed.metrics.max_abs, 0.0009765625);
  EXPECT_EQ(embed.metrics.first.index, 3);
  EXPECT_EQ(embed.first_row(), 1);
  EXPECT_FALSE(embed.group_sum_error);
  EXPECT_EQ(comparer.find("c0.layers.0")->metrics.broken, 1);
  EXPECT_EQ(comparer.find("c0.layers.0")->metrics.nan_ours, 1);
  const TapDifference* choice = comparer.find("c0.layers.0.ffn.gate.topk");
  ASSERT_NE(choice, nullptr);
  EXPECT_EQ(choice->kind, TapKind::choice);
  EXPECT_FALSE(choice->same_shape());
  EXPECT_EQ(choice->first_row(), -1);
  EXPECT_EQ(comparer.find("c0.norm"), nullptr);
  EXPECT_EQ(comparer.missing(),
            (std::vector<std::string_view>{"c0.layers.0.attn.indexer.candidates"}));
  EXPECT_TRUE(comparer.extra().empty());
  EXPECT_THROW(comparer.tap("c0.embed", mutable_view_of(ours.data(), Shape{2, 2})), Error);
}

TEST_F(SinksTest, ComparerKeepsToItsPatternsAndCollectsExtraTaps) {
  Comparer comparer(reference(), {.globs = "c0.embed,c0.unknown*", .collect_extra = true});
  std::vector<float> ours = {1, 2};
  EXPECT_FALSE(comparer.wants("c0.layers.0"));
  EXPECT_TRUE(comparer.wants("c0.unknown"));
  comparer.tap("c0.unknown", mutable_view_of(ours.data(), Shape{2}));
  comparer.tap("c0.layers.0", mutable_view_of(ours.data(), Shape{2}));
  EXPECT_TRUE(comparer.differences().empty());
  EXPECT_EQ(comparer.extra(), std::vector<std::string>{"c0.unknown"});
  EXPECT_EQ(comparer.missing(), (std::vector<std::string_view>{"c0.embed"}));
}

TEST_F(SinksTest, ForcerConvertsToTheTypeOfTheView) {
  Forcer forcer(reference(), "*");
  std::vector<bf16> narrow(4);
  EXPECT_TRUE(forcer.tap("c0.embed", mutable_view_of(narrow.data(), Shape{2, 2})));
  EXPECT_EQ(to_float(narrow[2]), 3);
  EXPECT_EQ(to_float(narrow[3]), 4);  // rounded
  std::vector<float> same(4);
  forcer.tap("c0.embed", mutable_view_of(same.data(), Shape{2, 2}));
  EXPECT_EQ(same[3], 4.0009765625f);
  std::vector<float> wide(2);
  forcer.tap("c0.layers.0", mutable_view_of(wide.data(), Shape{2}));
  EXPECT_EQ(wide, (std::vector<float>{1.5f, -2}));
  std::vector<int32_t> small(4);
  forcer.tap("c0.layers.0.ffn.gate.topk", mutable_view_of(small.data(), Shape{2, 2}));
  EXPECT_EQ(small, (std::vector<int32_t>{-1, 3, 0, 7}));
  std::vector<int64_t> large(4);
  forcer.tap("c0.layers.0.ffn.gate.topk", mutable_view_of(large.data(), Shape{2, 2}));
  EXPECT_EQ(large, (std::vector<int64_t>{-1, 3, 0, 7}));
  std::vector<uint8_t> mask(3);
  forcer.tap("c0.layers.0.attn.indexer.candidates", mutable_view_of(mask.data(), Shape{1, 3}));
  EXPECT_EQ(mask, (std::vector<uint8_t>{1, 0, 1}));
  std::vector<float> float_mask(3);
  forcer.tap("c0.layers.0.attn.indexer.candidates",
             mutable_view_of(float_mask.data(), Shape{1, 3}));
  EXPECT_EQ(float_mask, (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(forcer.forced(), 7);
}

TEST_F(SinksTest, ForcerLeavesOtherTapsAlone) {
  Forcer forcer(reference(), "*.ffn.gate.topk,*.indexer.topk");
  EXPECT_FALSE(forcer.wants("c0.embed"));
  EXPECT_FALSE(forcer.wants("c9.layers.0.ffn.gate.topk"));  // not in the reference
  std::vector<float> ours = {9, 9, 9, 9};
  EXPECT_FALSE(forcer.tap("c0.embed", mutable_view_of(ours.data(), Shape{2, 2})));
  EXPECT_EQ(ours[0], 9);
  EXPECT_EQ(forcer.forced(), 0);
}

TEST_F(SinksTest, ForcerRefusesWhatDoesNotFit) {
  Forcer forcer(reference(), "*");
  std::vector<float> ours(4);
  const std::string message =
      error_of([&] { forcer.tap("c0.embed", mutable_view_of(ours.data(), Shape{4})); });
  EXPECT_NE(message.find("'c0.embed': expected shape [4], found [2,2]"), std::string::npos)
      << message;
  std::vector<uint8_t> bytes(4);  // -1 does not fit
  EXPECT_THROW(forcer.tap("c0.layers.0.ffn.gate.topk", mutable_view_of(bytes.data(), Shape{2, 2})),
               Error);
  std::vector<int32_t> integers(4);  // 4.0009765625 is no integer
  EXPECT_THROW(forcer.tap("c0.embed", mutable_view_of(integers.data(), Shape{2, 2})), Error);
  EXPECT_EQ(forcer.forced(), 0);
}

TEST_F(SinksTest, ChainComparesBeforeItForces) {
  Comparer comparer(reference());
  Forcer forcer(reference(), "*.embed");
  Comparer after(reference(), {.globs = "c0.embed"});
  Chain chain({&comparer, &forcer, &after});
  EXPECT_TRUE(chain.wants("c0.layers.0"));
  EXPECT_FALSE(chain.wants("c0.unknown"));

  // As a model sees it: through the context's trace, with the prefix of the call.
  Trace trace;
  trace.start(&chain, "c0.");
  std::vector<float> embed = {0, 2, 3, 4};
  EXPECT_TRUE(trace.tap(mutable_view_of(embed.data(), Shape{2, 2}), "embed"));
  EXPECT_EQ(embed[0], 1);
  std::vector<float> stream = {1, -2};
  EXPECT_FALSE(trace.tap(mutable_view_of(stream.data(), Shape{2}), "layers.", 0));
  EXPECT_EQ(stream[0], 1);  // only looked at
  EXPECT_FALSE(trace.tap(mutable_view_of(stream.data(), Shape{2}), "unknown"));
  EXPECT_EQ(comparer.find("c0.embed")->metrics.changed, 2);
  EXPECT_EQ(comparer.find("c0.layers.0")->metrics.changed, 1);
  EXPECT_EQ(after.find("c0.embed")->metrics.changed, 0);
  EXPECT_EQ(after.differences().size(), 1u);
  EXPECT_EQ(forcer.forced(), 1);
}

}  // namespace
}  // namespace tessera::trace
