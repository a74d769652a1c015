#include "interrupt.h"

#include <signal.h>

#include <csignal>

namespace tessera {
namespace {

std::atomic<bool> interrupted{false};  // NOLINT: a signal handler reaches nothing else

std::atomic<bool> reload{false};  // NOLINT: the same

void on_hangup(int) { reload.store(true, std::memory_order_relaxed); }

void on_signal(int) { interrupted.store(true, std::memory_order_relaxed); }

}  // namespace

std::atomic<bool>& interrupt_flag() { return interrupted; }
std::atomic<bool>& reload_flag() { return reload; }

void install_reload_handler() {
  struct sigaction action = {};
  action.sa_handler = on_hangup;
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
}

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
}

}  // namespace tessera
