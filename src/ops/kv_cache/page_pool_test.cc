#include "ops/kv_cache/page_pool.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tessera {
namespace {

// 288 and 68 bytes per row at the released widths: 890 bytes per token in all.
TEST(PagePool, ReleasedRowSizes) {
  const PageLayout kv{GroupFormat::e2m1_e4m3_16, 512};
  const PageLayout keys{GroupFormat::e2m1_e8m0_32, 128};
  EXPECT_EQ(kv.code_bytes() + kv.scale_bytes(), 288);
  EXPECT_EQ(keys.code_bytes() + keys.scale_bytes(), 68);
  EXPECT_EQ(group_code_bytes(GroupFormat::e4m3_e8m0_32, 512) +
                group_scale_bytes(GroupFormat::e4m3_e8m0_32, 512),
            528);
  EXPECT_EQ(3 * (288 + 68) / 2 + 356, 890);
}

TEST(PagePool, CopiesShareAndAWriteSeparates) {
  PagePool pool({GroupFormat::e2m1_e8m0_32, 32}, 8);
  PageTable a(&pool);
  a.prepare_append(0, 70);
  EXPECT_EQ(a.page_count(), 2);
  std::memset(a.codes(69), 0x5a, 16);
  PageTable b = a;
  EXPECT_EQ(pool.free_pages(), 6);
  b.prepare_append(70, 1);  // the second page is shared: b gets its own copy
  EXPECT_EQ(pool.free_pages(), 5);
  EXPECT_EQ(a.codes(0), b.codes(0));
  EXPECT_NE(a.codes(69), b.codes(69));
  EXPECT_EQ(std::memcmp(a.codes(69), b.codes(69), 16), 0);
  b.truncate(64);
  EXPECT_EQ(pool.free_pages(), 6);
  a = PageTable(&pool);
  EXPECT_EQ(pool.free_pages(), 7);
}

TEST(PagePool, AFullPoolIsAnErrorAndLosesNothing) {
  PagePool pool({GroupFormat::e2m1_e8m0_32, 32}, 1);
  {
    PageTable table(&pool);
    table.prepare_append(0, 64);
    EXPECT_THROW(table.prepare_append(64, 1), Error);
  }
  EXPECT_EQ(pool.free_pages(), 1);
}

}  // namespace
}  // namespace tessera
