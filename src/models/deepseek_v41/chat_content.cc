#include "models/deepseek_v41/chat_content.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "models/deepseek_v41/json_fields.h"

namespace tessera::deepseek_v41 {
namespace {

using io::Json;

constexpr std::string_view kImageForms =
    "an http(s) URL or a data: URL (data:image/png;base64,...)";

// "https" of "https://example.com"; empty if the text does not begin with a scheme. One letter is
// none: it is a drive.
std::string_view scheme_of(std::string_view url) {
  const size_t colon = url.find(':');
  if (colon == std::string_view::npos || colon < 2) {
    return {};
  }
  const std::string_view scheme = url.substr(0, colon);
  const bool is_scheme = std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return is_ascii_alphanumeric(c) || c == '+' || c == '-' || c == '.';
  });
  return is_scheme ? scheme : std::string_view();
}

// Escapes (%2B) are decoded where the bytes are.
bool is_base64(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_ascii_alphanumeric(c) || c == '+' || c == '/' || c == '=' || c == '-' || c == '_' ||
           c == '%' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
  });
}

// data:TYPE[;PARAMETER...];base64,DATA
void check_data_url(std::string_view url, std::string_view where) {
  constexpr std::string_view kBase64 = ";base64";
  const size_t comma = url.find(',');
  const std::string_view head = url.substr(0, comma);
  const bool is_base64_head =
      head.size() >= kBase64.size() + 5 &&
      is_equal_in_any_case(head.substr(head.size() - kBase64.size()), kBase64);
  if (comma == std::string_view::npos || !is_base64_head) {
    fail(where, str_cat(quoted(url, 40), " is no base64 data: URL; write ",
                        "data:image/png;base64, and the file's bytes in base64"));
  }
  std::string_view type = head.substr(5, head.size() - 5 - kBase64.size());
  type = type.substr(0, type.find(';'));
  constexpr std::array<std::string_view, 5> kTypes = {"image/png", "image/jpeg", "image/jpg",
                                                      "image/webp", "image/gif"};
  const bool is_known = std::any_of(kTypes.begin(), kTypes.end(), [&](std::string_view known) {
    return is_equal_in_any_case(type, known);
  });
  if (!is_known) {
    fail(where,
         str_cat("a data: URL of ", type.empty() ? "no type" : str_cat("type ", quoted(type, 40)),
                 "; send a PNG, JPEG, WebP or GIF file (data:image/png;base64,...)"));
  }
  const std::string_view data = url.substr(comma + 1);
  if (data.empty() || !is_base64(data)) {
    fail(where, data.empty() ? "the data: URL holds no bytes; send the picture file in base64"
                             : "the data: URL holds characters that are not base64");
  }
}

void check_web_url(std::string_view url, size_t scheme_size, std::string_view where) {
  if (!url.substr(scheme_size).starts_with("://") || url.size() == scheme_size + 3) {
    fail(where, str_cat(quoted(url, 40), " names no host; expected http://HOST/PATH"));
  }
  if (url.size() > static_cast<size_t>(kMaxImageUrlBytes)) {
    fail(where, str_cat("the URL has ", url.size(), " bytes, at most ", kMaxImageUrlBytes,
                        "; send the picture as a base64 data: URL"));
  }
}

void check_url(std::string_view url, std::string_view where, ImagePaths paths) {
  const std::string_view scheme = scheme_of(url);
  if (is_equal_in_any_case(scheme, "http") || is_equal_in_any_case(scheme, "https")) {
    check_web_url(url, scheme.size(), where);
  } else if (is_equal_in_any_case(scheme, "data")) {
    check_data_url(url, where);
  } else if (!scheme.empty()) {
    fail(where, str_cat("a URL of scheme ", quoted(scheme, 40), "; send ", kImageForms));
  } else if (url.empty() || url.find('\0') != std::string_view::npos) {
    fail(where, str_cat(url.empty() ? "empty" : "has a zero byte", "; send ", kImageForms));
  } else if (paths == ImagePaths::refuse) {
    fail(where, str_cat(quoted(url, 40), " is no URL, and files of this machine are not read for ",
                        "requests; send ", kImageForms));
  }
}

ImageSource read_image_url(const Json& part, const std::string& where, ImagePaths paths) {
  const Json* image = part.find("image_url");
  if (image == nullptr || !image->is_object()) {
    fail(where, str_cat("'image_url' is ", image == nullptr ? "missing" : kind_name(*image),
                        ", expected an object with 'url'"));
  }
  const std::string inner = str_cat(where, ".image_url");
  const std::string& url = require_text(*image, "url", inner);
  check_url(url, inner + ".url", paths);
  std::string detail = optional_text(*image, "detail", inner);
  constexpr std::array<std::string_view, 4> kDetails = {"low", "high", "original", "auto"};
  if (find_value(*image, "detail") != nullptr &&
      std::find(kDetails.begin(), kDetails.end(), detail) == kDetails.end()) {
    fail_unknown(inner + ".detail", "detail", detail, "low, high, original, auto");
  }
  return {ImageSource::Kind::url, url, "", std::move(detail)};
}

// {"type":"file","file_data":"data:...","filename":...}
ImageSource read_file(const Json& part, const std::string& where) {
  const bool has_data = find_value(part, "file_data") != nullptr;
  if (find_value(part, "file_id") != nullptr) {
    fail(where, has_data ? "'file_id' and 'file_data' together; send 'file_data' alone"
                         : "'file_id' names an uploaded file, and there are none here; send the "
                           "picture in 'file_data' as a base64 data: URL");
  }
  if (!has_data) {
    fail(where, "'file_data' is missing, expected a base64 data: URL");
  }
  const std::string& data = require_text(part, "file_data", where);
  const std::string inner = str_cat(where, ".file_data");
  if (!is_equal_in_any_case(scheme_of(data), "data")) {
    fail(inner, str_cat(quoted(data, 40), " is no data: URL; send a web picture as image_url"));
  }
  check_data_url(data, inner);
  return {ImageSource::Kind::url, data, "", ""};
}

ContentBlock read_part(const Json& part, const std::string& where, ContentParts parts,
                       std::string_view role, ImagePaths paths) {
  if (!part.is_object()) {
    fail(where, str_cat("expected a content part, an object with 'type', found ", kind_name(part)));
  }
  const std::string& type = require_text(part, "type", where);
  ContentBlock block;
  if (type == "text") {
    block.text = require_text(part, "text", where);
    return block;
  }
  const bool is_file = type == "file";
  if (!is_file && type != "image_url") {
    fail(where, str_cat("unknown content part type ", quoted(type, 40),
                        ", expected text, image_url or file",
                        type == "image" ? "; write {\"type\":\"image_url\",\"image_url\":{\"url\":"
                                          "...}}"
                        : type == "tool_result" ? "; send results in messages of role tool"
                                                : ""));
  }
  if (parts == ContentParts::text) {
    fail(where, str_cat("a picture in a message of role ", role,
                        "; pictures belong in messages of role system, user or tool"));
  }
  block.kind = ContentBlock::Kind::image;
  block.image = is_file ? read_file(part, where) : read_image_url(part, where, paths);
  return block;
}

}  // namespace

std::vector<ContentBlock> chat_content_from_json(const Json& content, std::string_view where,
                                                 ContentParts parts, std::string_view role,
                                                 ImagePaths paths) {
  std::vector<ContentBlock> blocks;
  if (content.is_string()) {
    blocks.emplace_back().text = content.text();
    return blocks;
  }
  if (!content.is_array()) {
    fail(where,
         str_cat("expected a string or a list of content parts, found ", kind_name(content)));
  }
  blocks.reserve(content.items().size());
  for (size_t i = 0; i < content.items().size(); ++i) {
    blocks.push_back(
        read_part(content.items()[i], str_cat(where, "[", i, "]"), parts, role, paths));
  }
  return blocks;
}

}  // namespace tessera::deepseek_v41
