#include "models/deepseek_v41/completion_matcher.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::deepseek_v41 {

void PatternSet::add(std::string_view pattern, Kind kind, int32_t id, bool takes_newlines) {
  TESSERA_CHECK(!pattern.empty());
  TESSERA_CHECK(!takes_newlines || pattern.find('\n') == std::string_view::npos);
  takes_newlines_ = takes_newlines_ || takes_newlines;
  int32_t node = 0;
  for (const char byte : pattern) {
    int32_t next = child(node, byte);
    if (next == kNone) {
      next = static_cast<int32_t>(nodes_.size());
      Node& made = nodes_.emplace_back();
      made.byte = byte;
      made.depth = at(node).depth + 1;
      made.sibling = at(node).child;
      at(node).child = next;
    }
    node = next;
    if (takes_newlines) {
      at(node).newline_depth = at(node).depth;
    }
  }
  int32_t& end = kind == Kind::stop ? at(node).stop : at(node).tag;
  if (end == kNone) {
    end = id;
  }
}

int32_t PatternSet::child(int32_t node, char byte) const {
  int32_t next = at(node).child;
  while (next != kNone && at(next).byte != byte) {
    next = at(next).sibling;
  }
  return next;
}

int32_t PatternSet::step(int32_t node, char byte) const {
  while (true) {
    const int32_t next = child(node, byte);
    if (next != kNone) {
      return next;
    }
    if (node == 0) {
      return 0;
    }
    node = at(node).suffix;
  }
}

void PatternSet::link() {
  std::vector<int32_t> order = {0};  // breadth first: a suffix is shorter
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t parent = order[i];
    for (int32_t node = at(parent).child; node != kNone; node = at(node).sibling) {
      order.push_back(node);
      const int32_t suffix = parent == 0 ? 0 : step(at(parent).suffix, at(node).byte);
      Node& made = at(node);
      made.suffix = suffix;
      made.stop = made.stop == kNone ? at(suffix).stop : made.stop;
      made.tag = made.tag == kNone ? at(suffix).tag : made.tag;
      made.newline_depth = std::max(made.newline_depth, at(suffix).newline_depth);
    }
  }
}

void Matcher::step(char byte) {
  const size_t before = patterns_->newline_depth(node_);
  node_ = patterns_->step(node_, byte);
  const size_t after = patterns_->newline_depth(node_);
  if (byte == '\n') {
    newlines_ = before == 0 ? newlines_ + 1 : 1;
  } else if (after != before + 1) {
    newlines_ = 0;  // what may become a pattern begins behind text that is no newline, or here
  }
}

size_t Matcher::held() const {
  const size_t depth = patterns_->depth(node_);
  return patterns_->takes_newlines() ? std::max(depth, patterns_->newline_depth(node_) + newlines_)
                                     : depth;
}

}  // namespace tessera::deepseek_v41
