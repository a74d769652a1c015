// Numbers on the command line: decimal, no locale, and the whole text (CLI11's own conversion takes
// "010" for 8 and "-1" for the largest unsigned number).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace tessera {

// While the command line is parsed, text that is no number of the type throws Error{bad_request}.
void add_number_option(CLI::App& command, const std::string& name, int& value,
                       const std::string& help);
void add_number_option(CLI::App& command, const std::string& name, int64_t& value,
                       const std::string& help);
void add_number_option(CLI::App& command, const std::string& name, double& value,
                       const std::string& help);
void add_number_option(CLI::App& command, const std::string& name, std::optional<int64_t>& value,
                       const std::string& help);
void add_number_option(CLI::App& command, const std::string& name, std::optional<uint64_t>& value,
                       const std::string& help);
void add_number_option(CLI::App& command, const std::string& name, std::optional<double>& value,
                       const std::string& help);

}  // namespace tessera
