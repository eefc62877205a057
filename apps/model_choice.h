#pragma once

#include <filesystem>
#include <string>

#include "options.h"
#include "text/tokenizer.h"

namespace deepinfer::cli {

/// The checkpoint directory that --model means. Says on stderr which one it is (not with --quiet).
/// A hub name that somebody gave and that the cache lacks is downloaded, unless --no-download or
/// HF_HUB_OFFLINE forbids it; with no model named nothing ever is. Throws Error(kCheckpoint) when
/// there is no such checkpoint, Error(kIo) when a download failed.
std::string find_model_directory(const Options& options);

/// The tokenizer that --tokenizer or --model means, without looking at weights.
Tokenizer load_tokenizer(const Options& options);

}  // namespace deepinfer::cli
