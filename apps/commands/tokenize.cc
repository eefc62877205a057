#include "base/error.h"
#include "commands/commands.h"
#include "inputs.h"
#include "json_output.h"
#include "model_choice.h"
#include "option_groups.h"
#include "output.h"
#include "text/tokenizer.h"
#include "token_ids.h"

namespace deepinfer::cli {
namespace {

OptionSpec no_special_option(std::string_view help) {
  return {.name = "no-special", .kind = OptionKind::kFlag, .help = help};
}

int tokenize(Options& options, Output& output) {
  const std::vector<std::string> texts = read_texts(options);
  const Tokenizer tokenizer = load_tokenizer(options);
  EncodeOptions encode;
  encode.parse_special = !options.flag("no-special");
  encode.add_bos = options.flag("bos");
  for (const std::string& text : texts) {
    const std::vector<TokenId> ids = tokenizer.encode(text, encode);
    if (options.flag("json")) {
      Json pieces = Json::array();
      for (const TokenId id : ids) pieces.push_back(to_utf8(tokenizer.token_bytes(id)));
      output.line(dump({{"schema_version", kSchemaVersion},
                        {"count", ids.size()},
                        {"token_ids", ids},
                        {"tokens", std::move(pieces)}}));
    } else {
      output.line(join_ids(ids));
    }
  }
  return 0;
}

int detokenize(Options& options, Output& output) {
  std::vector<std::vector<TokenId>> sequences;
  if (!options.arguments().empty()) {
    std::string joined;
    for (const std::string& word : options.arguments()) joined += word + " ";
    sequences.push_back(parse_ids(joined, "IDS"));
  } else if (options.has("file")) {
    for (const std::string& path : options.texts("file")) {
      sequences.push_back(parse_ids(read_input(path, "--file"), path));
    }
  } else if (!stdin_is_terminal()) {
    sequences.push_back(parse_ids(read_input("-", "stdin"), "standard input"));
  } else {
    fail_argument("no ids: give them as arguments or with -f FILE, or pipe them into stdin");
  }
  const Tokenizer tokenizer = load_tokenizer(options);
  for (const auto& ids : sequences) {
    std::string text = tokenizer.decode(ids, options.flag("no-special"));
    if (options.flag("json")) {
      output.line(dump({{"schema_version", kSchemaVersion}, {"text", std::move(text)}}));
    } else {
      output.line(text);
    }
  }
  return 0;
}

OptionSpec json_option() {
  return {.name = "json", .kind = OptionKind::kFlag, .help = "JSON objects (docs/json.md)"};
}

}  // namespace

Command tokenize_command() {
  return {
      .name = "tokenize",
      .summary = "Turn text into token ids: one line of ids for each text.",
      .description = "  deepinfer tokenize \"Hello world\"\n  deepinfer tokenize -f FILE --json",
      .argument = {"TEXT", "texts, as with --prompt", -1},
      .groups = {text_input_options("a text"),
                 {"Tokens",
                  {no_special_option("encode spellings of special tokens as plain text"),
                   {.name = "bos",
                    .kind = OptionKind::kFlag,
                    .help = "put the begin-of-sentence token in front"},
                   json_option()}},
                 model_options(),
                 general_options()},
      .run = tokenize};
}

Command detokenize_command() {
  return {.name = "detokenize",
          .summary = "Turn token ids into text.",
          .description =
              "  deepinfer detokenize 0 19923 2058\n"
              "  deepinfer tokenize -f FILE | deepinfer detokenize",
          .argument = {"IDS", "ids, or one JSON array of them", -1},
          .groups = {{"Tokens",
                      {{.name = "file",
                        .aliases = "-f",
                        .value_name = "FILE",
                        .help = "ids separated by blanks or commas, or a JSON array; `-` is stdin",
                        .default_note = "stdin when it isn't a terminal",
                        .repeatable = true,
                        .configurable = false},
                       no_special_option("leave special tokens out of the text"),
                       json_option()}},
                     model_options(),
                     general_options()},
          .run = detokenize};
}

}  // namespace deepinfer::cli
