#pragma once

#include <filesystem>
#include <vector>

#include "options.h"

namespace deepinfer::cli {

/// Reads a YAML or JSON file whose keys are option names with `-` or `_`; a list gives a repeatable
/// option several values. `known` are the options of all commands, so that one file can serve
/// several. Throws Error(kInvalidArgument) naming file, line and key: unreadable file, no mapping,
/// unknown or repeated key, nested value.
GivenValues read_config_file(const std::filesystem::path& path,
                             const std::vector<OptionGroup>& known);

}  // namespace deepinfer::cli
