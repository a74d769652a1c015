// Several patterns looked for at once in text that arrives byte by byte, and how much of its end
// may still belong to one (Aho and Corasick 1975). Linear in the text, whatever the patterns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::deepseek_v41 {

// A trie of patterns whose nodes also know the longest suffix of their text that is a node.
class PatternSet {
 public:
  // Stop strings and tags are told apart, for both may end at the same byte.
  enum class Kind { stop, tag };
  static constexpr int32_t kNone = -1;

  PatternSet() : nodes_(1) {}

  // `pattern` is not empty. `takes_newlines`: all newlines directly before it belong to it; such a
  // pattern contains none itself.
  void add(std::string_view pattern, Kind kind, int32_t id, bool takes_newlines);
  // Call once, behind the last add().
  void link();

  int32_t step(int32_t node, char byte) const;
  // Bytes of the node's text: the longest end of the text so far that may become a pattern.
  size_t depth(int32_t node) const { return at(node).depth; }
  // The same for patterns that take newlines.
  size_t newline_depth(int32_t node) const { return at(node).newline_depth; }
  // The longest pattern that ends here, by its id, or kNone.
  int32_t stop(int32_t node) const { return at(node).stop; }
  int32_t tag(int32_t node) const { return at(node).tag; }
  // Does any pattern take newlines?
  bool takes_newlines() const { return takes_newlines_; }

 private:
  struct Node {
    int32_t child = kNone;    // the first one
    int32_t sibling = kNone;  // the next one
    int32_t suffix = 0;       // node of the longest proper suffix
    int32_t stop = kNone;
    int32_t tag = kNone;
    uint32_t depth = 0;
    uint32_t newline_depth = 0;
    char byte = 0;
  };

  const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  Node& at(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
  int32_t child(int32_t node, char byte) const;

  std::vector<Node> nodes_;  // [0] is the root
  bool takes_newlines_ = false;
};

// A place in a text, seen by a PatternSet that outlives it.
class Matcher {
 public:
  explicit Matcher(const PatternSet& patterns) : patterns_(&patterns) {}

  void step(char byte);

  int32_t stop() const { return patterns_->stop(node_); }
  int32_t tag() const { return patterns_->tag(node_); }
  // Newlines directly before the tag that ends here and takes them.
  size_t newlines() const { return newlines_; }
  // Bytes at the end of the text that may belong to a pattern, newlines included.
  size_t held() const;

 private:
  const PatternSet* patterns_;
  int32_t node_ = 0;
  size_t newlines_ = 0;  // directly before the last newline_depth() bytes
};

}  // namespace tessera::deepseek_v41
