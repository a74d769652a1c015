// The content of a message in a Chat Completions request: a string or a list of parts of type text,
// image_url or file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "tokenizer/conversation.h"

namespace tessera::deepseek_v41 {

// Whether an image_url may be a path of this machine. A path has no scheme ("file:" is one);
// whoever opens it decides which folder a relative one starts from.
enum class ImagePaths {
  refuse,  // requests from a network
  allow,   // request files of the machine's own user
};

// What a message of some role can hold.
enum class ContentParts { text, text_and_images };

// Longest http(s) URL, in bytes.
constexpr int64_t kMaxImageUrlBytes = 8192;

// Images are http(s) URLs, data: URLs with the base64 of a PNG, JPEG, WebP or GIF file, or paths;
// nothing is opened or decoded here. `role` is for messages. Throws Error{bad_request} that begins
// with `where` and the path of the part.
std::vector<ContentBlock> chat_content_from_json(const io::Json& content, std::string_view where,
                                                 ContentParts parts, std::string_view role,
                                                 ImagePaths paths);

}  // namespace tessera::deepseek_v41
