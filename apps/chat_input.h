#pragma once

#include "json_output.h"
#include "options.h"

// What `chat` and `render` make a conversation from.

namespace deepinfer::cli {

/// --messages, --system, --thinking, --effort, --tools, --tool-choice, --image.
OptionGroup conversation_options();

/// A Chat Completions request without its last user message: the object of --messages, or its array
/// as `messages`, with what the options say put over it. Throws Error(kInvalidArgument) naming the
/// file for JSON that isn't a conversation, Error(kUnsupported) for --image.
Json conversation_request(const Options& options);

/// Parses a JSON file; `-` is stdin. Throws Error(kInvalidArgument) with the place of the fault.
Json read_json_file(const std::string& path, std::string_view what);

/// The values of the sampling group that somebody gave, under their names in a request.
void add_sampling_fields(const Options& options, Json& request);

}  // namespace deepinfer::cli
