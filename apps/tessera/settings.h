// Options of a command that a TOML file can set too, by the same names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace tessera {

class Settings {
 public:
  // The command outlives the settings, and so do the values.
  explicit Settings(CLI::App& command) : command_(command) {}

  // Options whose values show() knows even when nobody gave them.
  void add(const std::string& name, int64_t& value, const std::string& help);
  void add(const std::string& name, double& value, const std::string& help);
  void add(const std::string& name, std::string& value, const std::string& type,
           const std::string& help);
  void add(const std::string& name, std::vector<std::string>& value, const std::string& type,
           const std::string& help);

  // Sets what the file says and the command line does not. Throws Error{bad_file} for a file that
  // is missing or no TOML, Error{bad_request} for a name that is no option and a wrong value.
  void read(const std::string& path);

  // All of them as such a file; of the command's other options those that were given.
  std::string show() const;

 private:
  CLI::App& command_;
  std::vector<std::pair<std::string, std::function<std::string()>>> values_;  // name, TOML text
};

}  // namespace tessera
