#include "ops/kv_cache/page_pool.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checked_math.h"

namespace tessera {

int64_t PageLayout::page_bytes() const {
  return round_up(kPageRows * (code_bytes() + scale_bytes()), kAlignment);
}

PagePool::PagePool(const PageLayout& layout, int64_t pages)
    : layout_(layout),
      page_bytes_(layout.page_bytes()),
      memory_(pages * page_bytes_),
      references_(static_cast<size_t>(pages), 0) {
  free_.reserve(static_cast<size_t>(pages));
  for (int64_t page = pages - 1; page >= 0; --page) {
    free_.push_back(static_cast<int32_t>(page));
  }
}

int32_t PagePool::allocate() {
  if (free_.empty()) {
    throw Error(ErrorCode::out_of_memory,
                str_cat("all ", references_.size(),
                        " cache pages are in use; start with a larger --context"));
  }
  const int32_t page = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::retain(int32_t page) { ++references_[static_cast<size_t>(page)]; }

void PagePool::release(int32_t page) {
  int32_t& count = references_[static_cast<size_t>(page)];
  TESSERA_CHECK(count > 0);
  if (--count == 0) {
    free_.push_back(page);
  }
}

PageTable::PageTable(const PageTable& other) : pool_(other.pool_), pages_(other.pages_) {
  for (const int32_t page : pages_) {
    pool_->retain(page);
  }
}

PageTable& PageTable::operator=(const PageTable& other) {
  PageTable copy(other);
  *this = std::move(copy);
  return *this;
}

PageTable::PageTable(PageTable&& other) noexcept
    : pool_(other.pool_), pages_(std::exchange(other.pages_, {})) {}

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  if (this != &other) {
    release_all();
    pool_ = other.pool_;
    pages_ = std::exchange(other.pages_, {});
  }
  return *this;
}

PageTable::~PageTable() { release_all(); }

void PageTable::release_all() {
  for (const int32_t page : pages_) {
    pool_->release(page);
  }
  pages_.clear();
}

void PageTable::prepare_append(int64_t rows, int64_t more) {
  if (more <= 0) {
    return;
  }
  const int64_t needed = ceil_div(rows + more, kPageRows);
  while (page_count() < needed) {
    pages_.push_back(pool_->allocate());
  }
  for (int64_t i = rows / kPageRows; i < needed; ++i) {
    int32_t& page = pages_[static_cast<size_t>(i)];
    if (pool_->references(page) > 1) {
      const int32_t own = pool_->allocate();
      std::memcpy(pool_->data(own), pool_->data(page), static_cast<size_t>(layout().page_bytes()));
      pool_->release(page);
      page = own;
    }
  }
}

PageTable PageTable::share(int64_t first_page, int64_t count) const {
  PageTable part(pool_);
  TESSERA_CHECK(first_page >= 0 && count >= 0 && first_page + count <= page_count());
  part.pages_.assign(pages_.begin() + first_page, pages_.begin() + first_page + count);
  for (const int32_t page : part.pages_) {
    pool_->retain(page);
  }
  return part;
}

void PageTable::append(const PageTable& other) {
  pages_.reserve(pages_.size() + other.pages_.size());
  for (const int32_t page : other.pages_) {
    pool_->retain(page);
    pages_.push_back(page);
  }
}

void PageTable::truncate(int64_t rows) {
  const int64_t kept = ceil_div(rows, kPageRows);
  while (page_count() > kept) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

}  // namespace tessera
