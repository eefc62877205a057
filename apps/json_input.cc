#include "json_input.h"

#include "text/python_json.h"

namespace deepinfer::cli {

Json parse_json(std::string_view text, std::string* problem) {
  std::string fault;
  if (json_depth(text) > kMaxJsonDepth) {
    fault = "nested deeper than " + std::to_string(kMaxJsonDepth) + " levels";
  } else {
    try {
      return Json::parse(text);
    } catch (const Json::parse_error& error) {
      fault = "not JSON: byte " + std::to_string(error.byte) + " is unexpected";
    } catch (const Json::out_of_range&) {
      fault = "not JSON: a number is out of range";
    }
  }
  if (problem != nullptr) *problem = std::move(fault);
  return Json(Json::value_t::discarded);
}

}  // namespace deepinfer::cli
