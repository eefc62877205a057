#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/tokenizer_compatibility.h"
#include "text/special_range.h"

namespace deepinfer {

/// Parses `release` or `native`; throws Error(kCheckpoint) naming `origin` otherwise.
TokenizerCompatibility parse_tokenizer_compatibility(std::string_view text,
                                                     std::string_view origin);

struct EncodeOptions {
  /// True: the spellings of added tokens anywhere in the text become their ids. False: the text is
  /// encoded without the added vocabulary, so that a user's `<｜User｜>` stays plain text.
  bool parse_special = true;
  /// Puts BOS in front unless the encoded text begins with it already.
  bool add_bos = false;
};

/// Byte-level BPE as a Hugging Face tokenizer.json describes it. Equal to the `tokenizers` library,
/// id for id, on everything it accepts; a file that asks for more than it knows is refused by name.
/// Constant after loading: any number of threads may encode and decode at once.
class Tokenizer {
 public:
  /// Reads `directory`/tokenizer.json and, where there is one, tokenizer_config.json.
  /// Throws Error(kCheckpoint) naming file and key when a file is missing, corrupt or unsupported.
  static Tokenizer load(const std::filesystem::path& directory,
                        TokenizerCompatibility compatibility = TokenizerCompatibility::kRelease);

  /// The same from the text of a tokenizer.json (and of a tokenizer_config.json, if not empty).
  /// `origin` names the source in messages.
  static Tokenizer from_json(
      std::string_view json, const std::string& origin,
      TokenizerCompatibility compatibility = TokenizerCompatibility::kRelease,
      std::string_view config_json = {});

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  /// Throws Error(kInvalidArgument) with the byte offset when `utf8` isn't valid UTF-8, or when BOS
  /// is asked for and the tokenizer has none.
  std::vector<TokenId> encode(std::string_view utf8, EncodeOptions options = {}) const;

  /// The chat way: each range becomes the id of the added token it spells, all text between ranges
  /// is plain. Throws Error(kInvalidArgument) when the text isn't valid UTF-8, or when the ranges
  /// are not ascending, overlap, leave the text, or hold no added token.
  std::vector<TokenId> encode_prompt(std::string_view utf8,
                                     std::span<const SpecialRange> special_ranges) const;

  /// The text of the ids' joined bytes; each maximal invalid UTF-8 sequence becomes one U+FFFD.
  /// `skip_special` leaves out the ids for which is_special() holds.
  /// Throws Error(kInvalidArgument) on an id outside 0..id_limit()-1.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  /// The bytes that the id stands for; perhaps a part of a character. The view lives as long as the
  /// tokenizer. Throws as decode().
  std::string_view token_bytes(TokenId id) const;

  /// The spelling in the vocabulary (bytes shown in the byte-level alphabet, `Ġ` for a blank); an
  /// added token's content. Lifetime and errors as token_bytes().
  std::string_view token_text(TokenId id) const;

  /// The id of a vocabulary spelling as token_text() returns it, added tokens first.
  std::optional<TokenId> token_id(std::string_view spelling) const;

  /// Whether tokenizer.json marks the id as special (role and think tokens are not). Throws as
  /// decode().
  bool is_special(TokenId id) const;

  /// Whether the id comes from `added_tokens`. Throws as decode().
  bool is_added(TokenId id) const;

  /// The ids 0..vocab_size()-1 are those of tokenizer.json, added tokens included.
  TokenId vocab_size() const;

  /// One past the largest id known. Above vocab_size() only for the placeholders of kRelease, which
  /// have no row in the model's embedding.
  TokenId id_limit() const;

  std::optional<TokenId> bos_id() const;
  std::optional<TokenId> eos_id() const;
  std::optional<TokenId> pad_id() const;

  /// Whether plain text gets a BOS by the policy of the files and of `TokenizerCompatibility`.
  bool adds_bos() const;

  /// Whether the hand-written scanner for the official pre-tokenizer is in use; otherwise the
  /// patterns of tokenizer.json run in PCRE2.
  bool uses_fast_scanner() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace deepinfer
