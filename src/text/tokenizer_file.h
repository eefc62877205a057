#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace deepinfer {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;
};

/// One step that cuts text into pieces: the matches, and what lies between them.
struct SplitStep {
  std::string pattern;
  bool is_literal = false;  ///< the pattern is plain text, not a regular expression
};

/// Two tokens that may join. The rank is the place in TokenizerDefinition::merges.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
};

/// What a tokenizer.json says, checked: ids are dense, every byte has a token, every merge refers
/// to known tokens, and nothing is asked for that the tokenizer doesn't do.
struct TokenizerDefinition {
  std::vector<std::string> spellings;  ///< by id, added tokens included
  TokenId model_vocab_size = 0;        ///< count of the entries of model.vocab
  std::vector<AddedToken> added_tokens;
  std::vector<Merge> merges;
  bool ignore_merges = false;
  std::vector<SplitStep> split_steps;
  std::optional<std::string> template_bos;  ///< what a TemplateProcessing puts in front
};

/// Throws Error(kCheckpoint) naming `origin` and the key.
TokenizerDefinition parse_tokenizer_file(std::string_view json, const std::string& origin);

/// What is used of a tokenizer_config.json.
struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;
  bool add_bos_token = false;
};

/// Throws Error(kCheckpoint) naming `origin` and the key.
TokenizerConfig parse_tokenizer_config(std::string_view json, const std::string& origin);

}  // namespace deepinfer
