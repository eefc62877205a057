#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace deepinfer {

/// How an engine is built. Empty optionals take the DEEPINFER_* variable if there is one, then the
/// default that is named here.
struct EngineOptions {
  /// A directory, `tiny`, or `org/name[@revision]` complete in the Hugging Face cache. Empty:
  /// DEEPINFER_HF_MODEL_DIR, the default checkpoint in that cache, the bundled one.
  std::optional<std::string> model;
  std::optional<std::string> tokenizer;  ///< a directory with tokenizer.json; default the model's
  /// `cpu`, `reference`, `nvidia` (or `cuda`), `ascend`, `auto`. DEEPINFER_ACCELERATOR, else `cpu`.
  std::optional<std::string> device;
  /// `exact`, `exact+cache`, `production`. DEEPINFER_NUMERICS, else `exact+cache` on a CPU.
  std::optional<std::string> numerics;
  std::optional<int> num_threads;  ///< DEEPINFER_NUM_THREADS, else the physical cores

  /// Prompt and output tokens of a request. 0: the smaller of 4096 and the checkpoint's
  /// max_position_embeddings, above which a value is an error.
  int max_model_len = 0;
  bool auto_max_model_len = false;  ///< the checkpoint's length, limited by memory
  int max_num_seqs = 64;            ///< sequences that run at once
  int max_num_batched_tokens = 0;   ///< rows of a step; 0: max(2048, max_num_seqs)
  bool chunked_prefill = true;      ///< false: a prompt must fit one step
  int tokens_per_block = 0;         ///< 16, 32, 64, 128; 0: 128, smaller for small windows
  /// Bytes of weights and caches; the engine refuses to start above. DEEPINFER_MAX_MEMORY, else
  /// no limit.
  std::optional<std::uint64_t> max_memory;
  /// Bytes of the caches; 0: what max_num_seqs sequences of max_model_len need, at most 4 GiB.
  std::uint64_t cache_memory = 0;
  /// With a value, requests without seq_seed get seeds derived from it and their number, so that a
  /// run can be repeated; without, 64 random bits each.
  std::optional<std::uint64_t> seed;
};

}  // namespace deepinfer
