#include "json_output.h"

#include <charconv>
#include <cmath>

namespace deepinfer::cli {

Json float_value(float value) {
  if (!std::isfinite(value)) return nullptr;
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  double shortest = 0;
  std::from_chars(buffer, end, shortest);
  return shortest;
}

Json top_logprobs_value(const std::vector<TokenLogprob>& top) {
  Json list = Json::array();
  for (const TokenLogprob& entry : top) {
    list.push_back(Json::array({entry.token_id, float_value(entry.logprob)}));
  }
  return list;
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace deepinfer::cli
