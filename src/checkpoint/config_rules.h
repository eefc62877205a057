#pragma once

#include <string>

#include "checkpoint/config.h"

namespace deepinfer {

/// The rules of model.md 3 that tie several keys together. Expects every single value to be in its
/// range already; throws Error(kCheckpoint) `origin: key: found X, expected Y` for the first broken
/// one.
void check_config_rules(const ModelConfig& config, const std::string& origin);

}  // namespace deepinfer
