#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/config.h"

/// Any bytes as a `config.json`: either a clear Error(kCheckpoint), or a configuration whose source
/// maps and sizes can be used without a further check.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace deepinfer;
  set_log_level(LogLevel::kOff);
  try {
    const ModelConfig config =
        parse_config(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
      if (config.ratio(layer) == 0) continue;
      const int sources[] = {config.kv_source(layer), config.index_source(layer),
                             config.index_k_source(layer)};
      for (const int source : sources) {
        if (source < 0 || source > layer || config.ratio(source) != config.ratio(layer))
          std::abort();
      }
    }
    if (!config.is_kv_source(config.n_prefill_layer())) std::abort();
    // The table of a legal but giant model would only slow the fuzzer down.
    constexpr long kManageable = 10000;
    const long experts =
        static_cast<long>(config.n_routed_experts) * config.num_hidden_layers +
        static_cast<long>(config.dspark_n_routed_experts) * config.num_nextn_predict_layers;
    if (experts > kManageable) return 0;
    for (const TensorSpec& spec : weight_catalogue(config)) {
      if (spec.bytes() <= 0) std::abort();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCheckpoint) std::abort();
  }
  return 0;
}
