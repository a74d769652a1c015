#include "number_option.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera {
namespace {

template <typename T>
T parse(const std::string& name, const std::string& text) {
  T number{};
  if (parse_number(text, number)) {
    return number;
  }
  if constexpr (std::is_integral_v<T>) {
    throw Error(ErrorCode::bad_request,
                str_cat(name, " ", tessera::quoted(text), ": expected a whole number from ",
                        std::numeric_limits<T>::min(), " to ", std::numeric_limits<T>::max()));
  } else {
    throw Error(ErrorCode::bad_request,
                str_cat(name, " ", tessera::quoted(text), ": expected a number"));
  }
}

template <typename T, typename Value>
void add(CLI::App& command, const std::string& name, Value& value, const std::string& help) {
  command
      .add_option_function<std::string>(
          name, [&value, name](const std::string& text) { value = parse<T>(name, text); }, help)
      ->type_name("NUMBER");
}

}  // namespace

void add_number_option(CLI::App& command, const std::string& name, int& value,
                       const std::string& help) {
  add<int>(command, name, value, help);
}

void add_number_option(CLI::App& command, const std::string& name, int64_t& value,
                       const std::string& help) {
  add<int64_t>(command, name, value, help);
}

void add_number_option(CLI::App& command, const std::string& name, double& value,
                       const std::string& help) {
  add<double>(command, name, value, help);
}

void add_number_option(CLI::App& command, const std::string& name, std::optional<int64_t>& value,
                       const std::string& help) {
  add<int64_t>(command, name, value, help);
}

void add_number_option(CLI::App& command, const std::string& name, std::optional<uint64_t>& value,
                       const std::string& help) {
  add<uint64_t>(command, name, value, help);
}

void add_number_option(CLI::App& command, const std::string& name, std::optional<double>& value,
                       const std::string& help) {
  add<double>(command, name, value, help);
}

}  // namespace tessera
