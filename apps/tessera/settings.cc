#include "settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/str_cat.h"
#include "io/json.h"
#include "number_option.h"

namespace tessera {
namespace {

// A TOML basic string has the escapes of JSON.
std::string quoted_text(const std::string& text) {
  return io::dump_compact(io::Json::string(text));
}

std::string list_of(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const std::string& item : items) {
    text += str_cat(text.size() > 1 ? ", " : "", quoted_text(item));
  }
  return text + "]";
}

}  // namespace

void Settings::add(const std::string& name, int64_t& value, const std::string& help) {
  add_number_option(command_, name, value, help);
  values_.emplace_back(name, [&value] { return str_cat(value); });
}

void Settings::add(const std::string& name, double& value, const std::string& help) {
  add_number_option(command_, name, value, help);
  values_.emplace_back(name, [&value] { return io::python_repr(value); });
}

void Settings::add(const std::string& name, std::string& value, const std::string& type,
                   const std::string& help) {
  command_.add_option(name, value, help)->type_name(type);
  values_.emplace_back(name, [&value] { return quoted_text(value); });
}

void Settings::add(const std::string& name, std::vector<std::string>& value,
                   const std::string& type, const std::string& help) {
  command_.add_option(name, value, help)->type_name(type)->allow_extra_args(false);
  values_.emplace_back(name, [&value] { return list_of(value); });
}

void Settings::read(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {  // CLI11 reads one as an empty file
    throw Error(ErrorCode::bad_file, str_cat(path, ": is a folder, expected a TOML file"));
  }
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_file(path);
  } catch (const CLI::FileError&) {
    throw Error(ErrorCode::bad_file,
                str_cat(path, ": cannot open the file; check the path and its permissions"));
  } catch (const CLI::Error& error) {
    throw Error(ErrorCode::bad_file, str_cat(path, ": ", error.what()));
  }
  for (const CLI::ConfigItem& item : items) {
    const std::string name = str_cat("--", item.fullname());
    CLI::Option* const option = command_.get_option_no_throw(name);
    if (option == nullptr || !option->get_configurable()) {
      throw Error(ErrorCode::bad_request, str_cat(path, ": ", item.fullname(),
                                                  " is no option of this command; see --help"));
    }
    if (option->count() > 0 || item.inputs.empty()) {
      continue;  // the command line has the last word; an empty list says nothing
    }
    const bool is_flag = option->get_items_expected_max() == 0;
    if (is_flag && item.inputs != std::vector<std::string>{"true"} &&
        item.inputs != std::vector<std::string>{"false"}) {
      throw Error(ErrorCode::bad_request,
                  str_cat(path, ": ", item.fullname(), ": expected true or false"));
    }
    if (is_flag && item.inputs.front() == "false") {
      continue;
    }
    try {
      option->add_result(item.inputs);
      option->run_callback();
    } catch (const CLI::Error& error) {
      throw Error(ErrorCode::bad_request, str_cat(path, ": ", error.what()));
    } catch (const Error& error) {
      throw Error(error.code(), str_cat(path, ": ", error.what()));
    }
  }
}

std::string Settings::show() const {
  std::string text;
  for (const CLI::Option* option : command_.get_options()) {
    const std::string name = option->get_name();
    const bool is_known = std::any_of(values_.begin(), values_.end(),
                                      [&](const auto& value) { return value.first == name; });
    if (option->count() > 0 && option->get_configurable() && !is_known && name.size() > 2) {
      const bool is_flag = option->get_items_expected_max() == 0;
      text += str_cat(name.substr(2), " = ",
                      is_flag                        ? "true"
                      : option->results().size() > 1 ? list_of(option->results())
                                                     : quoted_text(option->results().front()),
                      "\n");
    }
  }
  for (const auto& [name, value] : values_) {
    text += str_cat(name.substr(2), " = ", value(), "\n");
  }
  return text;
}

}  // namespace tessera
