#include "trace/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "trace/test_files.h"

namespace tessera::trace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TensorView view_as(const std::vector<uint8_t>& bytes, DType dtype, int64_t elements) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), dtype, Shape{elements}};
}

template <typename T>
MutableTensorView writable(std::vector<T>& values, DType dtype) {
  return {reinterpret_cast<std::byte*>(values.data()), dtype,
          Shape{static_cast<int64_t>(values.size())}};
}

TEST(Convert, WidensEveryFloatType) {
  // -1.5, +infinity, smallest positive subnormal
  EXPECT_EQ(to_doubles(view_as({0x00, 0xbe, 0x00, 0x7c, 0x01, 0x00}, DType::f16, 3)),
            (std::vector<double>{-1.5, kInfinity, 0x1p-24}));
  EXPECT_EQ(to_doubles(view_as({0xc0, 0xbf, 0x80, 0xff}, DType::bf16, 2)),
            (std::vector<double>{-1.5, -kInfinity}));
  EXPECT_EQ(to_doubles(view_as({0x38, 0x7e, 0x81}, DType::f8_e4m3, 3)),
            (std::vector<double>{1, 448, -0x1p-9}));
  EXPECT_EQ(to_doubles(view_as({0x3c, 0x7b, 0x01}, DType::f8_e5m2, 3)),
            (std::vector<double>{1, 57344, 0x1p-16}));
  EXPECT_EQ(to_doubles(view_as({0x7f, 0x00}, DType::f8_e8m0, 2)),
            (std::vector<double>{1, 0x1p-127}));
  const double third = 1.0 / 3.0;
  EXPECT_EQ(to_doubles(view_of(&third, Shape{1})), std::vector<double>{third});
  EXPECT_EQ(to_floats(view_of(&third, Shape{1})), std::vector<float>{static_cast<float>(third)});
}

TEST(Convert, WidensEveryIntegerTypeExactly) {
  const auto low_high = [](auto low, auto high, DType dtype) {
    const decltype(low) values[2] = {low, high};
    return to_integers({reinterpret_cast<const std::byte*>(values), dtype, Shape{2}});
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  using Pair = std::vector<int64_t>;
  EXPECT_EQ(low_high(int64_t{-kMax - 1}, kMax, DType::i64), (Pair{-kMax - 1, kMax}));
  EXPECT_EQ(low_high(int32_t{-7}, INT32_MAX, DType::i32), (Pair{-7, INT32_MAX}));
  EXPECT_EQ(low_high(int16_t{-7}, int16_t{9}, DType::i16), (Pair{-7, 9}));
  EXPECT_EQ(low_high(int8_t{-128}, int8_t{127}, DType::i8), (Pair{-128, 127}));
  EXPECT_EQ(low_high(uint64_t{0}, uint64_t{1} << 62, DType::u64), (Pair{0, int64_t{1} << 62}));
  EXPECT_EQ(low_high(uint32_t{0}, UINT32_MAX, DType::u32), (Pair{0, UINT32_MAX}));
  EXPECT_EQ(low_high(uint16_t{0}, uint16_t{65535}, DType::u16), (Pair{0, 65535}));
  EXPECT_EQ(low_high(uint8_t{0}, uint8_t{255}, DType::u8), (Pair{0, 255}));
  EXPECT_EQ(low_high(uint8_t{0}, uint8_t{2}, DType::boolean), (Pair{0, 1}));
  EXPECT_THROW(low_high(uint64_t{0}, UINT64_MAX, DType::u64), Error);
  EXPECT_THROW(to_integers(view_as({0, 0, 0, 0}, DType::f32, 1)), Error);
}

TEST(Convert, ReadsUnalignedDataAndPartsOfManyBlocks) {
  std::vector<uint8_t> bytes(1 + 5000 * sizeof(float));
  for (int i = 0; i < 5000; ++i) {
    const float value = static_cast<float>(i);
    std::memcpy(bytes.data() + 1 + static_cast<size_t>(i) * sizeof(float), &value, sizeof(float));
  }
  const TensorView view{reinterpret_cast<const std::byte*>(bytes.data()) + 1, DType::f32,
                        Shape{5000}};
  const std::vector<float> all = to_floats(view);
  EXPECT_EQ(all.front(), 0);
  EXPECT_EQ(all[1024], 1024);
  EXPECT_EQ(all.back(), 4999);
  std::vector<double> part(3);
  widen(view, 4997, std::span(part));
  EXPECT_EQ(part, (std::vector<double>{4997, 4998, 4999}));
}

TEST(Convert, RoundsFloatsToTheNearest) {
  const std::vector<float> from = {1, 1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 1e30f, -0.0f};
  const TensorView view = view_of(from.data(), Shape{5});
  std::vector<bf16> to(5);
  convert(view, writable(to, DType::bf16), "x");
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(to[i], to_bf16(from[i])) << i;
  }
  std::vector<double> wide(5);
  convert(view, writable(wide, DType::f64), "x");
  EXPECT_EQ(wide[3], double{1e30f});
}

TEST(Convert, HalfPrecisionIsExactAndTiesGoToEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {  // every finite non-negative number
    const uint16_t code = static_cast<uint16_t>(bits);
    const float value = f16_to_float(code);
    // The middle to the next number; above the largest one stands 2^16.
    const float next =
        bits + 1 == 0x7c00 ? 65536.0f : f16_to_float(static_cast<uint16_t>(bits + 1));
    const float middle = (value + next) / 2;
    const std::vector<float> from = {value, -value, middle, std::nextafter(middle, 0.0f)};
    std::vector<uint16_t> to(from.size());
    convert(view_of(from.data(), Shape{4}), writable(to, DType::f16), "x");
    ASSERT_EQ(to[0], code);
    ASSERT_EQ(to[1], code | 0x8000);
    ASSERT_EQ(to[2], (bits & 1) == 0 ? code : code + 1) << middle;
    ASSERT_EQ(to[3], code) << middle;
  }
  const std::vector<float> from = {1e9f, std::numeric_limits<float>::quiet_NaN()};
  std::vector<uint16_t> to(2);
  convert(view_of(from.data(), Shape{2}), writable(to, DType::f16), "x");
  EXPECT_EQ(to[0], 0x7c00);
  EXPECT_TRUE(std::isnan(f16_to_float(to[1])));
}

TEST(Convert, IntegersMustFit) {
  const std::vector<int64_t> from = {0, 1, 255};
  const TensorView view = view_of(from.data(), Shape{3});
  std::vector<uint8_t> bytes(3);
  convert(view, writable(bytes, DType::u8), "x");
  EXPECT_EQ(bytes, (std::vector<uint8_t>{0, 1, 255}));
  std::vector<bf16> halves(3);
  convert(view, writable(halves, DType::bf16), "x");
  EXPECT_EQ(to_float(halves[2]), 255);
  std::vector<int8_t> small(3);
  const std::string message =
      error_of([&] { convert(view, writable(small, DType::i8), "a.pt: tap 'ids'"); });
  EXPECT_EQ(message.find("a.pt: tap 'ids': element 2 is 255, which I8 cannot hold"), 0u) << message;
  EXPECT_THROW(convert(view, writable(bytes, DType::boolean), "x"), Error);
}

TEST(Convert, FloatsToIntegersMustBeWhole) {
  std::vector<float> from = {-1, 0, 16777216};
  std::vector<int32_t> to(3);
  convert(view_of(from.data(), Shape{3}), writable(to, DType::i32), "x");
  EXPECT_EQ(to, (std::vector<int32_t>{-1, 0, 16777216}));
  for (const float bad : {0.5f, 3e9f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    from[1] = bad;
    EXPECT_THROW(convert(view_of(from.data(), Shape{3}), writable(to, DType::i32), "x"), Error)
        << bad;
  }
}

TEST(Convert, IntegersToFloatsMustBeExact) {
  std::vector<int64_t> from = {int64_t{1} << 24};
  std::vector<float> to(1);
  convert(view_of(from.data(), Shape{1}), writable(to, DType::f32), "x");
  EXPECT_EQ(to[0], 16777216.0f);
  std::vector<double> wide(1);
  for (const int64_t bad : {(int64_t{1} << 24) + 1, (int64_t{1} << 53) + 1}) {
    from[0] = bad;
    EXPECT_THROW(convert(view_of(from.data(), Shape{1}), writable(to, DType::f32), "x"), Error);
  }
  EXPECT_THROW(convert(view_of(from.data(), Shape{1}), writable(wide, DType::f64), "x"), Error);
}

TEST(Convert, EightBitFloatsAreOnlyCopied) {
  const std::vector<uint8_t> codes = {0x38, 0x7f};
  std::vector<uint8_t> to(2);
  convert(view_as(codes, DType::f8_e4m3, 2), writable(to, DType::f8_e4m3), "x");
  EXPECT_EQ(to, codes);
  const float one = 1;
  std::vector<uint8_t> code(1);
  EXPECT_THROW(convert(view_of(&one, Shape{1}), writable(code, DType::f8_e4m3), "x"), Error);
}

}  // namespace
}  // namespace tessera::trace
