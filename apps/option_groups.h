#pragma once

#include <string_view>

#include "deepinfer/engine_options.h"
#include "deepinfer/llm.h"
#include "deepinfer/sampling_params.h"
#include "options.h"

// Options that several commands share, and what the engine makes of them.

namespace deepinfer::cli {

/// --config, --log-level, --quiet, --verbose, --progress: every command has them.
OptionGroup general_options();

/// --model, --tokenizer, --no-download.
OptionGroup model_options();

/// Device, threads, lengths, numerics.
OptionGroup engine_options();

/// Temperature to seeds. `max_tokens_default` empty: `max_tokens_note` says what holds.
OptionGroup sampling_options(std::string_view max_tokens_default,
                             std::string_view max_tokens_note = "");

/// -p, -f, --escape.
OptionGroup text_input_options(std::string_view what);

/// --bos, --no-bos.
OptionSpec bos_option();

/// Whether BOS goes before text prompts: as --bos and --no-bos say, else wherever the tokenizer has
/// one, since the model was trained on texts that begin with it. It is never doubled.
bool adds_bos(const Options& options, const EngineInfo& info);

/// Sets the log level that the options ask for.
void apply_log_level(const Options& options);

/// Whether progress shall be drawn on stderr.
bool wants_progress(const Options& options);

/// The engine's options; `model_directory` as find_model_directory() returned it.
EngineOptions to_engine_options(const Options& options, const std::string& model_directory);

/// What of the checkpoint's `generation_config.json` holds as defaults of sampling, as
/// --generation-config says: `auto` looks into the model's directory, `none` nowhere, anything else
/// is a directory. Throws Error(kCheckpoint) naming file and key for a file that can't be used.
GivenValues generation_config_values(const Options& options, const std::string& model_directory);

/// Throws Error(kInvalidArgument) for a value out of range, naming it as the command line does.
SamplingParams to_sampling_params(const Options& options);

}  // namespace deepinfer::cli
