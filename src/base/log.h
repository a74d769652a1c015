// Log lines of the library, on stderr. Programs set the level once; libraries never print
// otherwise.
#pragma once

#include <string_view>

namespace tessera {

enum class LogLevel { error, warning, info, debug };

void set_log_level(LogLevel level);
LogLevel log_level();

// Writes `tessera: warning: message` and a line end if `level` is at or above the set level
// (default: warning). Safe from any thread.
void log_line(LogLevel level, std::string_view message);

}  // namespace tessera
