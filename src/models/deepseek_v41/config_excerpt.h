// config.json of a smaller model of the same widths: some of the layers, other numbers of experts
// and of Engram rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"

namespace tessera::deepseek_v41 {

struct ConfigExcerpt {
  std::vector<int64_t> layers;  // of the whole model, ascending; empty: all
  std::optional<int64_t> experts;
  std::optional<int64_t> engram_vocab;  // where the search for primes starts
};

// The rewritten object, in the dialect it had; keys that nothing changes stay as they are, in their
// order. Layers are numbered anew from 0, and everything that names layers follows. Draft stages
// are kept only if every layer that they read is; else num_nextn_predict_layers is 0 and
// dspark_target_layer_ids empty. `name` stands for the file in messages. Throws Error{bad_request}
// that names the option and what to change for a choice that cannot work, and what parse_config()
// throws for an object that it does not accept.
io::Json excerpt_config(const io::Json& config, const std::string& name,
                        const ConfigExcerpt& excerpt);

// "1,2,20,24" and "0-7,20". Throws Error{bad_request} naming --keep-layers.
std::vector<int64_t> parse_layer_list(const std::string& text);

}  // namespace tessera::deepseek_v41
