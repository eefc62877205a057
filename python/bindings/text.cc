#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "conversions.h"
#include "text/chat_encoder.h"
#include "text/chat_request.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "name"_a

namespace deepinfer::python {
namespace {

void bind_tokenizer(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def_static(
          "load",
          [](nb::str directory, const std::string& compatibility) {
            const std::string path = to_utf8(directory, "the tokenizer's directory");
            nb::gil_scoped_release release;
            return Tokenizer::load(
                std::filesystem::path(path),
                parse_tokenizer_compatibility(compatibility, "tokenizer_compatibility"));
          },
          "directory"_a, "compatibility"_a = "release")
      .def(
          "encode",
          [](const Tokenizer& self, nb::str text, bool add_bos, bool parse_special) {
            const std::string bytes = to_utf8(text, "text");
            nb::gil_scoped_release release;
            return self.encode(bytes, {.parse_special = parse_special, .add_bos = add_bos});
          },
          "text"_a, "add_bos"_a = false, "parse_special"_a = true)
      .def(
          "decode",
          [](const Tokenizer& self, nb::object ids, bool skip_special) {
            return to_str(self.decode(to_token_ids(ids, "ids"), skip_special));
          },
          "ids"_a, "skip_special"_a = false,
          nb::sig("def decode(self, ids: collections.abc.Iterable[typing.SupportsIndex], "
                  "skip_special: bool = False) -> str"))
      .def(
          "token_bytes",
          [](const Tokenizer& self, TokenId id) {
            const std::string_view bytes = self.token_bytes(id);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "id"_a)
      .def(
          "token_text",
          [](const Tokenizer& self, TokenId id) { return to_str(self.token_text(id)); }, "id"_a)
      .def(
          "token_id",
          [](const Tokenizer& self, nb::str spelling) {
            return self.token_id(to_utf8(spelling, "spelling"));
          },
          "spelling"_a)
      .def("is_special", &Tokenizer::is_special, "id"_a)
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size)
      .def_prop_ro("bos_id", &Tokenizer::bos_id)
      .def_prop_ro("eos_id", &Tokenizer::eos_id)
      .def_prop_ro("pad_id", &Tokenizer::pad_id)
      .def_prop_ro("adds_bos", &Tokenizer::adds_bos);
}

void bind_chat(nb::module_& module) {
  module.def(
      "render_chat",
      [](const Tokenizer* tokenizer, nb::str request_json) {
        const ChatRequest request = parse_chat_request(to_utf8(request_json, "request"));
        const RenderedPrompt prompt = ChatEncoder().render(request.conversation);
        std::vector<TokenId> ids;
        if (tokenizer != nullptr)
          ids = tokenizer->encode_prompt(prompt.text, prompt.special_ranges);
        return nb::make_tuple(to_str(prompt.text), ids);
      },
      "tokenizer"_a.none(), "request_json"_a,
      nb::sig("def render_chat(tokenizer: Tokenizer | None, request_json: str) -> tuple[str, "
              "list[int]]"),
      "Text and ids of a Chat Completions request's prompt.");

  module.def(
      "parse_output",
      [](nb::str text, bool thinking, bool tools, const std::vector<std::string>& stop,
         const std::string& finish_reason) {
        const OutputParserOptions options{
            .start = thinking ? OutputStart::kReasoning : OutputStart::kContent,
            .parse_tool_calls = tools,
            .stop = stop};
        const ParsedMessage message = parse_output(to_utf8(text, "text"), options, finish_reason);
        nb::list calls;
        for (const ParsedToolCall& call : message.tool_calls) {
          calls.append(nb::make_tuple(to_str(call.name), to_str(call.arguments)));
        }
        return nb::make_tuple(to_str(message.reasoning), to_str(message.content), calls,
                              to_str(message.finish_reason));
      },
      "text"_a, "thinking"_a, "tools"_a, "stop"_a, "finish_reason"_a,
      nb::sig("def parse_output(text: str, thinking: bool, tools: bool, stop: "
              "collections.abc.Sequence[str], finish_reason: str) -> tuple[str, str, "
              "list[tuple[str, str]], str]"),
      "Reasoning, content, calls (name, arguments) and finish reason of a model's text.");
}

}  // namespace

void bind_text(nb::module_& module) {
  bind_tokenizer(module);
  bind_chat(module);
}

}  // namespace deepinfer::python
