// Events of a request to server-sent events, in the order of docs/api.md. Nothing is written
// before the answer begins, so that a request which fails early is answered with a status.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine.h"
#include "server/api_answer.h"
#include "server/api_error.h"

namespace tessera::server {

class AnswerStream {
 public:
  enum class Kind { chat, text };
  // `choices`: Request::choices.
  AnswerStream(Kind kind, AnswerForm form, int64_t choices);

  // What an event adds to the stream; empty for progress and notices.
  std::string event(const RequestEvent& event);
  // The end of a request whose events were all taken: one last event for each choice, then the
  // usage, if asked for, then kSseDone.
  std::string end(const Result& result);
  // The end of a request that failed after events were written.
  std::string fail(const ApiError& error) const;

 private:
  // A chunk with the one choice `index`.
  std::string chunk(int64_t index, std::string_view key, io::Json value, io::Json logprobs,
                    std::string_view finish_reason) const;
  std::string delta_chunk(int64_t index, io::Json value) const;
  io::Json chunk_json(io::Json choices) const;
  // What stands before everything else of a choice: once.
  std::string opening(int64_t index);
  std::string chat_event(const RequestEvent& event);
  std::string text_event(const RequestEvent& event);

  Kind kind_;
  AnswerForm form_;
  std::vector<bool> is_open_;  // per choice
};

}  // namespace tessera::server
