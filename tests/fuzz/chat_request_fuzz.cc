// Reads request bodies: either a typed error with a JSON body, or a request that renders.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/chat_encoder.h"
#include "text/chat_request.h"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

void check_ranges(const deepinfer::RenderedPrompt& prompt) {
  std::size_t end = 0;
  for (const deepinfer::SpecialRange& range : prompt.special_ranges) {
    require(range.begin >= end && range.begin < range.end && range.end <= prompt.text.size());
    end = range.end;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  deepinfer::ChatRequestOptions options;
  options.strict_recipe = (data[0] & 1) != 0;
  options.official_sampling = (data[0] & 2) != 0;
  options.allow_http_images = (data[0] & 4) != 0;
  if ((data[0] & 8) != 0) options.served_models = {"m"};
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const deepinfer::ChatRequest request = deepinfer::parse_chat_request(body, options);
    // A request that was accepted always renders: any exception from here on is a finding.
    check_ranges(deepinfer::ChatEncoder().render(request.conversation));
    require(request.token_budget(1) >= 1);
  } catch (const deepinfer::RequestError& error) {
    require(error.status() == 400 || error.status() == 404);
    require(nlohmann::json::accept(error.to_json()));
  }
  return 0;
}
