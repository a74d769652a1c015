// Runs the built program on a terminal (a pseudo-terminal of 24 x 100 cells): keys in, screen bytes
// out.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::test {

class Terminal {
 public:
  // TESSERA_PROGRAM with `arguments`; TERM is xterm unless `environment` (added or replacing) says
  // otherwise. Throws std::runtime_error if it cannot be started.
  explicit Terminal(const std::vector<std::string>& arguments,
                    const std::vector<std::pair<std::string, std::string>>& environment = {});
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(std::string_view keys);
  // The output since the last call up to and with `text`. After a minute without it the test fails
  // and the program is killed.
  std::string wait_for(std::string_view text);
  // The rest of the output; the program has ended. After a minute without output it is killed.
  std::string finish();
  int status() const { return status_; }  // exit status, -1 after a signal; behind finish()

 private:
  bool read_some(int timeout_ms);

  int process_ = -1;
  int terminal_ = -1;
  int status_ = -1;
  std::string output_;  // not yet returned
};

}  // namespace tessera::test
