#include "models/deepseek_v41/model.h"

#include "base/error.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/prompt.h"
#include "models/deepseek_v41/token_map.h"

namespace tessera::deepseek_v41 {
namespace {

// Addressing of every memory; the table sizes prove the prime buckets.
std::vector<EngramAddressing> make_memories(const Config& config, int32_t pad_class) {
  const EngramConfig& e = config.engram;
  const std::vector<std::vector<int64_t>> primes =
      engram_primes(static_cast<int64_t>(e.layers.size()), e.max_ngram, e.heads, e.vocab_size);
  std::vector<EngramAddressing> memories;
  for (size_t i = 0; i < e.layers.size(); ++i) {
    EngramAddressing a;
    a.max_ngram = e.max_ngram;
    a.heads = e.heads;
    a.pad_class = pad_class;
    a.primes = primes[i];
    int64_t sum = 0;
    for (const int64_t prime : primes[i]) {
      a.offsets.push_back(sum);
      sum += prime;
    }
    if (sum != e.table_rows[i]) {
      throw Error(ErrorCode::bad_file,
                  str_cat("config.json: engram_num_embeddings of layer ", e.layers[i], " is ",
                          e.table_rows[i], ", the hash buckets add up to ", sum));
    }
    const std::vector<int64_t> multipliers =
        engram_multipliers(e.layers[i], e.max_ngram, e.classes);
    std::copy(multipliers.begin(), multipliers.end(), a.multipliers.begin());
    memories.push_back(std::move(a));
  }
  return memories;
}

}  // namespace

ModelTokenizer load_tokenizer(const std::string& path, const Config& config) {
  ModelTokenizer made{Tokenizer::load(path), {}};
  const int64_t tokens = made.tokenizer.size();
  if (tokens > config.vocab) {
    throw Error(ErrorCode::bad_file,
                str_cat(path, ": ", tokens, " tokens, but config.json has a vocabulary of ",
                        config.vocab, "; use the tokenizer.json of this model"));
  }
  if (!config.engram.layers.empty()) {
    made.classes =
        make_token_map(made.tokenizer, config.vocab, config.engram.classes, path).classes;
  }
  return made;
}

std::unique_ptr<const Model> Model::load(const std::string& folder, const Parity& parity) {
  Config config = read_config(folder + "/config.json");
  read_hf_quant_config(folder, config.quantization);
  auto [tokenizer, classes] = load_tokenizer(folder + "/tokenizer.json", config);
  if (config.image_token <
      0) {  // a text-only checkpoint need not name it; prompts may still hold it
    config.image_token = tokenizer.token_id(kImagePlaceholder).value_or(-1);
  }
  io::Checkpoint checkpoint(folder);
  Weights weights = bind_weights(checkpoint, config, parity.nvfp4_activations);
  std::vector<EngramAddressing> memories;
  if (!classes.empty()) {
    const int32_t pad_class = classes[static_cast<size_t>(config.engram.pad_token)];
    memories = make_memories(config, pad_class);
  }
  std::vector<float> window = rope_frequencies(config.rotary_dim, config.rope_theta, {});
  std::vector<float> compressed =
      rope_frequencies(config.rotary_dim, config.compress_rope_theta, config.yarn);
  return std::make_unique<const Model>(
      Model{std::move(checkpoint), std::move(tokenizer),
            Network{std::move(config), parity, std::move(weights), std::move(classes),
                    std::move(memories), std::move(window), std::move(compressed)}});
}

}  // namespace tessera::deepseek_v41
