// Fetches against servers of this machine: names that a test makes up, and results as text.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "intake/fetch.h"

namespace tessera::test {

// Answers with the addresses of the script: the first list for the first lookup of a host, and so
// on; the last one stays. Hosts that are not in the script do not exist.
class ScriptedResolver final : public intake::Resolver {
 public:
  using Answers = std::vector<std::vector<std::string>>;

  ScriptedResolver() = default;
  explicit ScriptedResolver(std::map<std::string, Answers> script) : script_(std::move(script)) {}

  intake::Resolution resolve(const std::string& host, const intake::Deadline&) override {
    const std::lock_guard guard(mutex_);
    asked_.push_back(host);
    const auto found = script_.find(host);
    if (found == script_.end()) {
      return {intake::Resolution::Status::unknown_host, {}};
    }
    Answers& answers = found->second;
    intake::Resolution resolution{intake::Resolution::Status::found, {}};
    for (const std::string& address : answers.front()) {
      resolution.addresses.push_back(intake::parse_ip_address(address).value());
    }
    if (answers.size() > 1) {
      answers.erase(answers.begin());
    }
    return resolution;
  }

  std::vector<std::string> asked() const {
    const std::lock_guard guard(mutex_);
    return asked_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Answers> script_;
  std::vector<std::string> asked_;
};

// Fetching is on, and the servers of a test may be reached.
inline intake::FetchRules local_rules() {
  intake::FetchRules rules;
  rules.is_enabled = true;
  rules.allows_private_hosts = true;
  rules.connect_timeout = std::chrono::milliseconds(60'000);
  rules.total_timeout = std::chrono::milliseconds(120'000);
  return rules;
}

// "ok: BODY" or "FAULT: DETAIL".
inline std::string text_of(const intake::FetchResult& result) {
  if (const auto* refusal = std::get_if<intake::FetchRefusal>(&result)) {
    return str_cat(intake::fetch_fault_name(refusal->fault), ": ", refusal->detail);
  }
  std::string out = "ok: ";
  for (const std::byte byte : std::get<0>(result)) {
    out.push_back(static_cast<char>(byte));
  }
  return out;
}

inline std::string fetched(std::string_view url, const intake::FetchRules& rules,
                           intake::Resolver& resolver, const intake::Deadline& deadline = {}) {
  return text_of(intake::fetch(url, rules, resolver, deadline));
}

inline std::string fetched(std::string_view url, const intake::FetchRules& rules = local_rules()) {
  ScriptedResolver resolver;
  return fetched(url, rules, resolver);
}

// The word before the first colon: "ok" or the fault.
inline std::string verdict(const std::string& text) { return text.substr(0, text.find(':')); }

}  // namespace tessera::test
