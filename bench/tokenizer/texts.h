// Texts for the tokenizer's benchmark, the same on every machine.
//
// Prose is drawn from word lists: the word of rank r with weight 1 / (r + 2.7) (Zipf's law with
// Mandelbrot's shift), so that a text repeats common words and keeps meeting rare ones as prose
// does. English: 376 written words, then 5,500 of stems and endings in random order, and now and
// then a name of invented syllables; sentences of 4 to 25 words with commas, quotes, capitals,
// numbers and paragraphs. Chinese: 332 written words, then 1,000 random pairs of common characters;
// a punctuation mark every 2 to 11 words; a number or a Latin word now and then. Code: statements
// of identifiers with indentation and comments. Mixed: paragraphs of all three, Markdown, accents,
// other scripts and emoji.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::bench {

struct BenchText {
  std::string name;
  std::string text;  // valid UTF-8
};

// Each of at least `bytes` bytes; noise is twice as long. Names: english, chinese, code,
// mixed, and the runs letter, spaces, digits, cjk (one long piece) and noise (random bytes, the
// ill-formed ones replaced by U+FFFD).
std::vector<BenchText> make_bench_texts(size_t bytes);

}  // namespace tessera::bench
