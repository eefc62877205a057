#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "deepinfer/outputs.h"

// JSON results (docs/json.md). Keys stand in the order in which they are written.

namespace deepinfer::cli {

using Json = nlohmann::ordered_json;

inline constexpr int kSchemaVersion = 1;

/// The shortest decimal that reads back as this float; null for NaN and infinities.
Json float_value(float value);

/// `[[id, logprob], ...]`.
Json top_logprobs_value(const std::vector<TokenLogprob>& top);

/// One line of JSON.
std::string dump(const Json& value);

}  // namespace deepinfer::cli
