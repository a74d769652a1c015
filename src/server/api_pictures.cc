#include "server/api_pictures.h"

#include <string>
#include <utility>

#include "base/base64.h"
#include "base/str_cat.h"
#include "server/api_chat.h"
#include "server/api_error.h"

namespace tessera::server {
namespace {

using io::Json;

void add_pictures(const std::vector<ContentBlock>& blocks, std::vector<ImageSource>& pictures) {
  for (const ContentBlock& block : blocks) {
    if (block.kind == ContentBlock::Kind::image) {
      pictures.push_back(block.image);
    }
    add_pictures(block.content, pictures);
  }
}

// A list of pictures is the content of a message, so that one parser reads both.
Json message_of(const Json& images) {
  Json content = Json::array();
  for (size_t i = 0; i < images.items().size(); ++i) {
    const Json& image = images.items()[i];
    Json url = image;
    if (image.is_string()) {
      url = Json::object({{"url", image}});
    } else if (!image.is_object()) {
      refuse_value(str_cat("images[", i, "]"), image, "a URL or an object with a url");
    }
    content.items().push_back(
        Json::object({{"type", Json::string("image_url")}, {"image_url", std::move(url)}}));
  }
  Json message = Json::object({{"role", Json::string("user")}, {"content", std::move(content)}});
  return Json::object({{"messages", Json::array({std::move(message)})}});
}

Json pair(int64_t a, int64_t b) { return Json::array({Json::number(a), Json::number(b)}); }

Json to_json(const PicturePlan& plan) {
  Json json = Json::object();
  json.set("source", pair(plan.width, plan.height));
  json.set("content",
           Json::array({Json::number(plan.content_width), Json::number(plan.content_height),
                        Json::number(plan.content_x), Json::number(plan.content_y)}));
  json.set("canvas", pair(plan.canvas_width, plan.canvas_height));
  json.set("patches", pair(plan.patch_rows, plan.patch_columns));
  json.set("tokens", pair(plan.token_rows, plan.token_columns));
  json.set("span_tokens", Json::number(plan.span_tokens));
  json.set("policy", Json::string(plan.policy));
  Json notices = Json::array();
  for (const std::string& notice : plan.notices) {
    notices.items().push_back(Json::string(notice));
  }
  json.set("notices", std::move(notices));
  if (!plan.preview.empty()) {
    json.set("preview", Json::string(str_cat("data:image/png;base64,", to_base64(plan.preview))));
  }
  return json;
}

}  // namespace

PlanCall parse_plan_body(std::string_view body, const ApiLimits& limits) {
  const Json json = parse_body(body);
  Fields fields(json);
  read_model(fields, limits);
  PlanCall call;
  call.has_preview = fields.flag("preview").value_or(false);
  const Json* images = fields.find("images");
  const bool has_messages = fields.find("messages") != nullptr;
  if ((images != nullptr) == has_messages) {
    refuse("images", has_messages ? "found beside messages; send one of the two"
                                  : "missing, expected a list of URLs (or messages)");
  }
  if (images != nullptr && !images->is_array()) {
    refuse_value("images", *images, "a list of URLs");
  }
  const Request request = prompt_of_chat(images != nullptr ? message_of(*images) : json, limits);
  for (const Message& message : request.messages) {
    add_pictures(message.content, call.pictures);
  }
  if (call.pictures.empty()) {
    refuse(images != nullptr ? "images" : "messages", "no picture in it, expected at least one");
  }
  return call;
}

Json plan_json(const std::vector<PicturePlan>& plans) {
  Json images = Json::array();
  int64_t total = 0;
  for (const PicturePlan& plan : plans) {
    images.items().push_back(to_json(plan));
    total += plan.span_tokens;
  }
  Json json = Json::object();
  json.set("images", std::move(images));
  json.set("total_tokens", Json::number(total));
  return json;
}

}  // namespace tessera::server
