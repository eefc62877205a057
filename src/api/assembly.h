#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "cache/store/cache_store.h"
#include "checkpoint/checkpoint.h"
#include "deepinfer/engine_options.h"
#include "deepinfer/llm.h"
#include "engine/engine.h"
#include "model/model.h"
#include "model/weights.h"
#include "ops/ops.h"
#include "text/tokenizer.h"

namespace deepinfer {

/// An engine with everything it stands on, in the order of dependence. Never moved: parts refer to
/// each other.
struct Assembly {
  Checkpoint checkpoint;
  Tokenizer tokenizer;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ops> ops;
  ModelWeights weights;
  std::unique_ptr<CacheStore> caches;
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  EngineInfo info;
};

/// Options, environment and defaults to a ready engine. Errors as LLM's constructor.
std::unique_ptr<Assembly> assemble(const EngineOptions& options);

}  // namespace deepinfer
