// What a sequence is between steps: a value. Copying it forks the sequence (cache pages are shared
// and copied on write). Activations never belong here: they are StepBuffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/deepseek_v41/config.h"
#include "ops/kv_cache/page_pool.h"

namespace tessera::deepseek_v41 {

// Pools of compressed rows, shared by all sequences of an engine. One row is one latent of one
// source.
struct CachePools {
  // Room for `tokens` tokens in all, counted per kv source by its ratio.
  CachePools(const Config& config, int64_t tokens);

  int64_t bytes() const { return kv.bytes() + index_keys.bytes(); }

  PagePool kv;          // E2M1 in groups of 16 with E4M3 scales
  PagePool index_keys;  // E2M1 in groups of 32 with E8M0 scales
};

struct SequenceState {
  SequenceState(const Config& config, CachePools& pools);

  // Makes room for `rows` more tokens: pages exist and their tails belong to this sequence alone.
  // Called before a step; changes nothing that a reader sees. Throws Error{out_of_memory} without a
  // page left.
  void prepare(const Config& config, int64_t rows);

  // Room in the page tables for a sequence of so many tokens.
  void reserve(const Config& config, int64_t tokens);

  // Bytes of packed state that this sequence occupies, shared pages counted in full.
  int64_t bytes() const;

  // Cuts the page tables to the entries of the first `tokens` tokens. Rings, open groups and
  // history of an earlier position cannot be computed from later ones: they come from a copy taken
  // there.
  void truncate_pages(const Config& config, int64_t tokens);

  // The whole state as bytes (page rows packed back to back), for swapping out; deserialise gives
  // an equal state on pages of its own. With a `base`, a state that this one was forked from, the
  // page rows of the base stay out, and deserialise shares the pages of an equal base. Same model
  // and build only: no version, machine byte order. Throws Error{bad_file} for bytes of another
  // length than the model's state has, Error{out_of_memory} without enough pages.
  std::vector<std::byte> serialise(const Config& config, const SequenceState* base = nullptr) const;
  static SequenceState deserialise(const Config& config, CachePools& pools,
                                   std::span<const std::byte> bytes,
                                   const SequenceState* base = nullptr);

  // Every layer's ring has all rows that the next position reads: it can go on anywhere. In the
  // middle of a prompt whose unread rows were left out (step.h) the later layers lack some.
  bool is_complete(const Config& config) const;

  int64_t position = 0;  // committed tokens

  // Window rings [layers][window] of packed rows (sparse_attention.h), slot = position mod window.
  std::vector<std::byte> rings;
  // [layers] position from which on a layer's rows were computed, all up to `position`.
  std::vector<int64_t> ring_begin;
  // Per kv source.
  std::vector<PageTable> kv;
  std::vector<PageTable> index_keys;
  // Rows of the open group of every source of ratio > 1: [sources][ratio][2][head_dim], kv then
  // score.
  std::vector<float> open_groups;
  // Classes of the last max_ngram - 1 tokens, newest first; dead before the start.
  std::vector<int32_t> history;
  // Reference mode index-slot only: source whose index keys were published last, -1 before the
  // first.
  int64_t index_slot = -1;
  // Draws made by the sampler.
  uint64_t sampled = 0;
};

// Most pages of each pool that so many more tokens of a sequence take.
int64_t pages_of_run(const Config& config, int64_t rows);
// CachePools::bytes() without making them.
int64_t cache_pool_bytes(const Config& config, int64_t tokens);
// Bytes of pages that a token fills, over all sources.
double page_bytes_per_token(const Config& config);

// Layout helpers shared by the step and commit.
int64_t ring_layer_bytes(const Config& config);
constexpr int64_t kMaxRatio = 8;
// Offset of [source][slot] in open_groups; kv row first, then the score row.
int64_t open_group_offset(const Config& config, int64_t source, int64_t slot);

}  // namespace tessera::deepseek_v41
