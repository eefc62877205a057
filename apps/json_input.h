#pragma once

#include <string>
#include <string_view>

#include "json_output.h"

// JSON that others wrote. The library reads and frees nested values by recursion, so that text
// nested deep enough would exhaust the stack: none is parsed past kMaxJsonDepth.

namespace deepinfer::cli {

/// The value of a JSON text, or a discarded value (`is_discarded()`) when it isn't JSON or is
/// nested too deeply; `problem`, if given, then says why.
Json parse_json(std::string_view text, std::string* problem = nullptr);

}  // namespace deepinfer::cli
