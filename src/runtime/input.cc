// Input files to requests.
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "io/json.h"
#include "models/deepseek_v41/chat_request.h"
#include "models/deepseek_v41/prompt_json.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

InputCase to_input(deepseek_v41::PromptCase from, const std::string& root) {
  InputCase input;
  input.name = std::move(from.name);
  Request& r = input.request;
  r.messages = std::move(from.messages);
  r.context = std::move(from.context);
  r.raw_prompt = std::move(from.raw_prompt);
  r.raw_images = std::move(from.raw_images);
  r.is_thinking = from.is_thinking;
  r.effort = from.effort;
  r.image_root = root;
  return input;
}

Request to_request(deepseek_v41::ChatRequest from) {
  Request request;
  request.messages = std::move(from.messages);
  request.is_thinking = from.is_thinking;
  request.effort = from.effort;
  request.forces_calls = from.forces_calls;
  request.is_json = from.is_json;
  return request;
}

Request with_root(Request request, const std::string& path) {
  request.image_root = std::filesystem::path(path).parent_path().string();
  return request;
}

std::string read_text(const std::string& path) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<InputCase> read_input_file(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string root = file.parent_path().string();
  if (file.extension() == ".json") {
    const io::Json json = io::read_json_file(path);
    std::vector<InputCase> inputs;
    if (deepseek_v41::is_chat_request(json)) {
      inputs.emplace_back().request =
          with_root(request_of_chat_body(json, path, PicturePaths::allow), path);
      return inputs;
    }
    for (deepseek_v41::PromptCase& c : deepseek_v41::cases_from_json(json, path)) {
      inputs.push_back(to_input(std::move(c), root));
    }
    return inputs;
  }
  InputCase input;
  input.request.image_root = root;
  Message message;
  const std::string text = read_text(path);
  try {
    message.content = deepseek_v41::parse_tagged_text(text);
  } catch (const Error& error) {
    throw Error(error.code(), str_cat(path, ": ", error.what()));
  }
  input.request.messages.push_back(std::move(message));
  return {std::move(input)};
}

InputCase parse_input_case(std::string_view json, const std::string& image_root) {
  std::vector<deepseek_v41::PromptCase> cases =
      deepseek_v41::cases_from_json(io::parse_json(json, "case"), "case");
  if (cases.size() != 1) {
    throw Error(ErrorCode::bad_file, str_cat("case: ", cases.size(), " cases, expected one"));
  }
  return to_input(std::move(cases.front()), image_root);
}

Request read_chat_request(const std::string& path) {
  return with_root(to_request(deepseek_v41::parse_chat_request(read_text(path), path,
                                                               deepseek_v41::ImagePaths::allow)),
                   path);
}

Request request_of_chat_body(const io::Json& body, std::string_view where, PicturePaths paths) {
  return to_request(deepseek_v41::chat_request_from_json(body, where,
                                                         paths == PicturePaths::allow
                                                             ? deepseek_v41::ImagePaths::allow
                                                             : deepseek_v41::ImagePaths::refuse));
}

void attach_tools_file(const std::string& path, Request& request) {
  deepseek_v41::attach_tools(io::read_json_file(path), path, request.messages);
}

void attach_response_format_file(const std::string& path, Request& request) {
  const io::Json schema = io::read_json_file(path);
  if (request.messages.empty() || request.messages.front().role != Role::system) {
    Message system;
    system.role = Role::system;
    request.messages.insert(request.messages.begin(), std::move(system));
  }
  request.messages.front().response_format = io::dump_python(schema);
}

std::optional<int> parse_effort_level(std::string_view text) {
  return deepseek_v41::parse_effort(text);
}

}  // namespace tessera
