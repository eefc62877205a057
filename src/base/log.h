#pragma once

#include <string>
#include <string_view>

namespace deepinfer {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

/// Parses `debug|info|warn|error|off`; throws Error(kInvalidArgument) naming `origin` otherwise.
LogLevel parse_log_level(std::string_view text, std::string_view origin);

/// The logger writes to stderr only, stdout carries results. It is the one piece of global mutable
/// state of the project (docs/style in CONTRIBUTING.md).
void set_log_level(LogLevel level);
LogLevel log_level();

void log(LogLevel level, const std::string& message);
inline void log_debug(const std::string& message) { log(LogLevel::kDebug, message); }
inline void log_info(const std::string& message) { log(LogLevel::kInfo, message); }
inline void log_warn(const std::string& message) { log(LogLevel::kWarn, message); }
inline void log_error(const std::string& message) { log(LogLevel::kError, message); }

}  // namespace deepinfer
