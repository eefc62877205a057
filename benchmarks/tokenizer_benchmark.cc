// Times the tokenizer on one thread; benchmarks/tokenizer_speed.py compares it with another
// library.
//
//   tokenizer_benchmark DIRECTORY TEXT [--rounds N] [--ids FILE] [--pieces]
//
// DIRECTORY holds tokenizer.json; TEXT is UTF-8, its documents separated by zero bytes. Prints one
// JSON object: bytes, tokens, an FNV-1a checksum of all ids, the seconds to load, and the seconds
// of each round over all documents. --ids writes the ids as little-endian int32. --pieces times the
// pre-tokenizer alone instead: the fast scanner and the general path.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/official_scanner.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_file.h"

namespace {

using deepinfer::TokenId;

struct Options {
  std::string directory;
  std::string text_file;
  std::string ids_file;
  int rounds = 3;
  bool pieces = false;
};

Options parse_options(const std::vector<std::string_view>& arguments) {
  Options options;
  std::vector<std::string> positional;
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const std::string_view argument = arguments[index];
    const auto value = [&]() -> std::string_view {
      if (++index == arguments.size()) {
        deepinfer::fail_argument(std::string(argument) + " needs a value");
      }
      return arguments[index];
    };
    if (argument == "--rounds") {
      const std::string_view text = value();
      const auto [end, error] =
          std::from_chars(text.data(), text.data() + text.size(), options.rounds);
      if (error != std::errc() || end != text.data() + text.size() || options.rounds < 1) {
        deepinfer::fail_argument("--rounds needs a positive number");
      }
    } else if (argument == "--ids") {
      options.ids_file = value();
    } else if (argument == "--pieces") {
      options.pieces = true;
    } else {
      positional.emplace_back(argument);
    }
  }
  if (positional.size() != 2) {
    deepinfer::fail_argument(
        "usage: tokenizer_benchmark DIRECTORY TEXT [--rounds N] [--ids FILE] [--pieces]");
  }
  options.directory = positional[0];
  options.text_file = positional[1];
  return options;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) deepinfer::fail_io(path + ": can't be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string_view> split_documents(std::string_view text) {
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    documents.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return documents;
}

// The processor time of this process: other work on the machine hardly disturbs it.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <typename Action>
double seconds_of(Action action) {
  const double start = processor_seconds();
  action();
  return processor_seconds() - start;
}

template <typename Action>
std::string rounds_json(int rounds, Action action) {
  std::ostringstream json;
  for (int round = 0; round < rounds; ++round) {
    json << (round == 0 ? "[" : ", ") << seconds_of(action);
  }
  json << "]";
  return json.str();
}

void time_pieces(const Options& options, const std::vector<std::string_view>& documents) {
  const std::string file = options.directory + "/tokenizer.json";
  const auto definition = deepinfer::parse_tokenizer_file(read_file(file), file);
  if (!deepinfer::is_official_split(definition.split_steps)) {
    deepinfer::fail_argument(file + ": --pieces needs the official pre-tokenizer");
  }
  const deepinfer::PreTokenizer general(definition.split_steps, file);
  std::size_t fast_pieces = 0;
  std::size_t general_pieces = 0;
  const std::string fast_seconds = rounds_json(options.rounds, [&] {
    for (const std::string_view document : documents) {
      deepinfer::scan_official_pieces(document, [&](std::string_view) { ++fast_pieces; });
    }
  });
  const std::string general_seconds = rounds_json(options.rounds, [&] {
    for (const std::string_view document : documents) {
      general_pieces += general.split(document).size();
    }
  });
  std::cout << "{\"pieces_fast\": " << fast_pieces << ", \"pieces_general\": " << general_pieces
            << ", \"seconds_fast\": " << fast_seconds
            << ", \"seconds_general\": " << general_seconds << "}\n";
}

void time_encode(const Options& options, const std::vector<std::string_view>& documents) {
  std::optional<deepinfer::Tokenizer> tokenizer;
  const double load_seconds = seconds_of([&] {
    tokenizer =
        deepinfer::Tokenizer::load(options.directory, deepinfer::TokenizerCompatibility::kNative);
  });
  std::vector<std::vector<TokenId>> ids(documents.size());
  const std::string seconds = rounds_json(options.rounds, [&] {
    for (std::size_t index = 0; index < documents.size(); ++index) {
      ids[index] = tokenizer->encode(documents[index]);
    }
  });
  std::size_t bytes = 0;
  for (const std::string_view document : documents) bytes += document.size();
  std::uint64_t checksum = 0xCBF29CE484222325u;
  std::size_t tokens = 0;
  for (const auto& document : ids) {
    tokens += document.size();
    for (const TokenId id : document) {
      for (int shift = 0; shift < 32; shift += 8) {
        checksum = (checksum ^ (static_cast<std::uint32_t>(id) >> shift & 0xFF)) * 0x100000001B3u;
      }
    }
  }
  if (!options.ids_file.empty()) {
    std::ofstream file(options.ids_file, std::ios::binary);
    for (const auto& document : ids) {
      file.write(reinterpret_cast<const char*>(document.data()),
                 static_cast<std::streamsize>(document.size() * sizeof(TokenId)));
    }
    if (!file.flush()) deepinfer::fail_io(options.ids_file + ": can't be written");
  }
  std::cout << "{\"bytes\": " << bytes << ", \"tokens\": " << tokens << ", \"checksum\": \""
            << std::hex << checksum << std::dec << "\", \"load_seconds\": " << load_seconds
            << ", \"seconds\": " << seconds << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse_options({argv + 1, argv + argc});
    const std::string text = read_file(options.text_file);
    const std::vector<std::string_view> documents = split_documents(text);
    options.pieces ? time_pieces(options, documents) : time_encode(options, documents);
    return 0;
  } catch (const deepinfer::Error& error) {
    std::cerr << "tokenizer_benchmark: " << error.what() << "\n";
    return error.kind() == deepinfer::ErrorKind::kInvalidArgument ? 2 : 1;
  }
}
