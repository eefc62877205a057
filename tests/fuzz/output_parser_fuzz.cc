// Feeds model text to the output parser in one piece and in chunks: equal results, valid JSON in
// the arguments of every call unless generation was cut off.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_parser.h"
#include "text/python_json.h"
#include "text/utf8.h"

namespace {

using namespace deepinfer;

void require(bool promise) {
  if (!promise) std::abort();
}

ParsedMessage parse_in_chunks(std::string_view text, const OutputParserOptions& options,
                              std::string_view reason, std::uint32_t seed) {
  OutputParser parser(options);
  ParsedMessage message;
  while (!text.empty()) {
    seed = seed * 1664525 + 1013904223;
    const std::size_t size = std::min<std::size_t>(seed >> 29, text.size());
    message.add(parser.push(text.substr(0, size)));
    text.remove_prefix(size);
  }
  message.add(parser.finish(reason));
  message.finish_reason = parser.finish_reason();
  return message;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  // The first byte chooses the options, the second the chunks.
  OutputParserOptions options;
  options.start = static_cast<OutputStart>(data[0] % 5);
  options.parse_tool_calls = (data[0] & 0x20) != 0;
  if ((data[0] & 0x40) != 0) options.stop = {"STOP", "ab", "\n\n", "<a"};
  const std::string_view reason = (data[0] & 0x80) != 0 ? "length" : "stop";
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);

  const ParsedMessage whole = parse_output(text, options, reason);
  require(parse_in_chunks(text, options, reason, data[1]) == whole);
  if (reason == "stop" && valid_utf8_prefix(text) == text.size()) {
    for (const ParsedToolCall& call : whole.tool_calls) {
      require(nlohmann::json::accept(call.arguments));
    }
  }
  for (const ParsedToolCall& call : whole.tool_calls) {
    require(call.arguments.find("</｜DSML｜ parameter>") == std::string::npos);
    require(call.arguments.find("</｜DSML｜ invoke>") == std::string::npos);
  }
  const std::string_view inside = strip_code_fence(whole.content);
  require(inside.size() <= whole.content.size());
  return 0;
}
