#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/tokenizer.h"

namespace deepinfer::testing {

/// The bytes of a file; a missing file fails the test that asks for it.
std::string read_test_file(const std::filesystem::path& path);

/// A file of tests/golden, parsed.
nlohmann::json read_golden(const std::string& name);

/// The official tokenizer in `native` mode, loaded once.
const Tokenizer& official_tokenizer();

/// A small valid tokenizer.json: the 256 bytes as ids 0..255 in byte order, the merges `h e` and
/// `he l`, one added token `<end>`, the pre-tokenizer of the official file.
nlohmann::json small_tokenizer_json();

/// A string of up to `max_length` characters from all over Unicode: ASCII, blanks, symbols, digits
/// of many scripts, Han and kana, marks, characters newer than Unicode 14, controls, anything.
std::string random_text(std::mt19937& generator, int max_length);

/// Runs `action` and returns the message of the Error it throws; anything else fails the test.
std::string error_message(ErrorKind kind, const std::function<void()>& action);

}  // namespace deepinfer::testing
