// Ctrl-C as a flag that long work looks at.
#pragma once

#include <atomic>

namespace tessera {

// Exit status of a command that Ctrl-C ended.
constexpr int kInterrupted = 130;

// SIGINT and SIGTERM set the flag; a second one ends the process at once. SIGPIPE is ignored:
// writing to a closed pipe fails with EPIPE instead.
void install_signal_handlers();

// SIGHUP sets another flag: what can be read again is read again.
void install_reload_handler();
std::atomic<bool>& reload_flag();

// Set by the handler; a command may set it too, to end its own work.
std::atomic<bool>& interrupt_flag();

}  // namespace tessera
