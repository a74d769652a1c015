// Numbers of bytes on the command line: "64G", "1.5TB", "512MiB".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace tessera {

// The units of the GNU tools: K, M, G and T (also KiB, ...) are powers of 1024, KB, MB, GB and TB
// of 1000; no unit: bytes. What is left of a fraction of a byte is dropped. Throws
// Error{bad_request} that names the option for anything else, and for what an int64_t does not
// hold.
int64_t parse_size(const std::string& name, const std::string& text);

// An option whose text parse_size() reads while the command line is parsed.
void add_size_option(CLI::App& command, const std::string& name, int64_t& value,
                     const std::string& help);
void add_size_option(CLI::App& command, const std::string& name, std::optional<int64_t>& value,
                     const std::string& help);

}  // namespace tessera
