// Pages of packed cache rows: 64 rows each, codes first, then scales, 64-byte aligned. Reference
// counted, so that sequences with a common beginning share them; copied when a shared page is
// written.
#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "ops/quantize/quantize.h"

namespace tessera {

constexpr int64_t kPageRows = 64;

struct PageLayout {
  GroupFormat format = GroupFormat::e2m1_e4m3_16;
  int64_t width = 0;  // values of a row

  int64_t code_bytes() const { return group_code_bytes(format, width); }
  int64_t scale_bytes() const { return group_scale_bytes(format, width); }
  int64_t page_bytes() const;
};

// All pages of one layout, allocated at once. Not thread-safe: it belongs to the engine's step
// loop.
class PagePool {
 public:
  PagePool(const PageLayout& layout, int64_t pages);

  const PageLayout& layout() const { return layout_; }
  int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }
  int64_t pages() const { return static_cast<int64_t>(references_.size()); }
  int64_t bytes() const { return memory_.bytes(); }

  // Throws Error{out_of_memory} when no page is left.
  int32_t allocate();
  void retain(int32_t page);
  void release(int32_t page);
  int32_t references(int32_t page) const { return references_[static_cast<size_t>(page)]; }
  std::byte* data(int32_t page) { return memory_.data() + page * page_bytes_; }

 private:
  PageLayout layout_;
  int64_t page_bytes_;
  AlignedBuffer memory_;
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;
};

// Rows of one cache of one sequence: a value. Copies share pages. The pool outlives the table.
class PageTable {
 public:
  PageTable() = default;
  explicit PageTable(PagePool* pool) : pool_(pool) {}
  PageTable(const PageTable& other);
  PageTable& operator=(const PageTable& other);
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;
  ~PageTable();

  // Pages for rows [0, rows + more) exist afterwards, and those that hold rows [rows, rows + more)
  // belong to this table alone.
  void prepare_append(int64_t rows, int64_t more);
  // Room in the table itself for so many rows; takes no page.
  void reserve(int64_t rows) { pages_.reserve(static_cast<size_t>(rows / kPageRows + 1)); }
  // Only the pages of the first `rows` rows stay.
  void truncate(int64_t rows);
  // A table of `count` of these pages, shared.
  PageTable share(int64_t first_page, int64_t count) const;
  // The other table's pages, shared, come behind these; all of these are full.
  void append(const PageTable& other);

  const PageLayout& layout() const { return pool_->layout(); }
  int64_t page_count() const { return static_cast<int64_t>(pages_.size()); }
  std::byte* codes(int64_t row) const {
    return page(row) + (row % kPageRows) * layout().code_bytes();
  }
  std::byte* scales(int64_t row) const {
    return page(row) + kPageRows * layout().code_bytes() +
           (row % kPageRows) * layout().scale_bytes();
  }

 private:
  std::byte* page(int64_t row) const {
    return pool_->data(pages_[static_cast<size_t>(row / kPageRows)]);
  }
  void release_all();

  PagePool* pool_ = nullptr;
  std::vector<int32_t> pages_;
};

}  // namespace tessera
