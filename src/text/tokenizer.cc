#include "text/tokenizer.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "text/added_vocabulary.h"
#include "text/byte_alphabet.h"
#include "text/byte_pair_encoder.h"
#include "text/official_scanner.h"
#include "text/piece_cache.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_file.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

constexpr std::string_view kOfficialBos = "<｜begin▁of▁sentence｜>";
constexpr std::string_view kOfficialEos = "<｜end▁of▁sentence｜>";
constexpr std::string_view kOfficialPad = "<｜▁pad▁｜>";
constexpr int kReleasePlaceholders = 21;

// Strings by id, in one block.
class StringTable {
 public:
  void add(std::string_view text) {
    block_ += text;
    ends_.push_back(block_.size());
  }
  std::string_view operator[](TokenId id) const {
    const auto index = static_cast<std::size_t>(id);
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(block_).substr(begin, ends_[index] - begin);
  }
  TokenId size() const { return static_cast<TokenId>(ends_.size()); }

 private:
  std::string block_;
  std::vector<std::size_t> ends_;
};

// The working memory of one encode call.
struct EncodeMemory {
  PieceCache cache;
  BytePairEncoder::Workspace workspace;
};

// Keeps the memories of finished calls: caches stay warm without locks while encoding.
class EncodeMemoryPool {
 public:
  std::unique_ptr<EncodeMemory> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<EncodeMemory> memory = std::move(free_.back());
        free_.pop_back();
        return memory;
      }
    }
    return std::make_unique<EncodeMemory>();
  }
  void give_back(std::unique_ptr<EncodeMemory> memory) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(memory));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeMemory>> free_;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail_checkpoint(path.string() + ": the file is missing or unreadable");
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) fail_checkpoint(path.string() + ": reading failed");
  return text;
}

std::string placeholder_spelling(int number) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "<|place_holder_mm_span_%04d|>", number);
  return text.data();
}

}  // namespace

struct Tokenizer::Impl {
  Impl(const TokenizerDefinition& definition, const std::string& origin)
      : pre_tokenizer(definition.split_steps, origin),
        official_split(is_official_split(definition.split_steps)),
        ignore_merges(definition.ignore_merges),
        file_vocab_size(static_cast<TokenId>(definition.spellings.size())),
        flags(definition.spellings.size()) {
    for (const std::string& spelling : definition.spellings) {
      texts.add(spelling);
      bytes.add(from_byte_alphabet(spelling));
    }
    for (const AddedToken& token : definition.added_tokens) {
      flags[static_cast<std::size_t>(token.id)] = {.added = true, .special = token.special};
      finders[token.normalized ? 1 : 0].add(token.content, token.id);
    }
  }

  struct Flags {
    bool added = false;
    bool special = false;
  };

  // Called once all texts are there: the map's keys are views of them.
  void index_spellings(const std::vector<Merge>& merges) {
    ids.reserve(static_cast<std::size_t>(texts.size()));
    for (TokenId id = 0; id < texts.size(); ++id) ids.emplace(texts[id], id);
    std::array<TokenId, 256> byte_tokens{};
    for (int byte = 0; byte < 256; ++byte) {
      const char character = static_cast<char>(byte);
      byte_tokens[byte] = ids.at(to_byte_alphabet({&character, 1}));
    }
    encoder.emplace(merges, byte_tokens);
    if (!ignore_merges) return;
    ids_of_bytes.reserve(ids.size());
    for (TokenId id = 0; id < file_vocab_size; ++id) {
      // Only spellings in the byte alphabet can be the whole of a piece.
      if (to_byte_alphabet(bytes[id]) == texts[id]) ids_of_bytes.emplace(bytes[id], id);
    }
  }

  void add_placeholders() {
    for (int number = 0; number < kReleasePlaceholders; ++number) {
      const std::string spelling = placeholder_spelling(number);
      finders[0].add(spelling, texts.size());
      texts.add(spelling);
      bytes.add(spelling);
      flags.push_back({.added = true, .special = true});
    }
  }

  std::optional<TokenId> find(std::string_view spelling) const {
    const auto found = ids.find(spelling);
    if (found == ids.end()) return std::nullopt;
    return found->second;
  }

  void require_known(TokenId id) const {
    if (id < 0 || id >= texts.size()) {
      fail_argument("token id " + std::to_string(id) + " is outside 0.." +
                    std::to_string(texts.size() - 1));
    }
  }

  void encode_piece(std::string_view piece, std::size_t readable, EncodeMemory& memory,
                    std::vector<TokenId>& out) const {
    if (piece.size() > PieceCache::kMaxPieceBytes) {
      merge_piece(piece, memory, out);
      return;
    }
    const PieceCache::Key key = PieceCache::key_of(piece, readable);
    if (const auto known = memory.cache.find(key)) {
      out.insert(out.end(), known->begin(), known->end());
      return;
    }
    const std::size_t before = out.size();
    merge_piece(piece, memory, out);
    const std::span<const TokenId> fresh = std::span(out).subspan(before);
    if (fresh.size() <= PieceCache::kMaxIds) memory.cache.insert(key, fresh);
  }

  void merge_piece(std::string_view piece, EncodeMemory& memory, std::vector<TokenId>& out) const {
    if (ignore_merges) {
      const auto whole = ids_of_bytes.find(piece);
      if (whole != ids_of_bytes.end()) {
        out.push_back(whole->second);
        return;
      }
    }
    encoder->encode(piece, memory.workspace, out);
  }

  void encode_plain(std::string_view text, EncodeMemory& memory, std::vector<TokenId>& out) const {
    const char* const text_end = text.data() + text.size();
    const auto emit = [&](std::string_view piece) {
      encode_piece(piece, static_cast<std::size_t>(text_end - piece.data()), memory, out);
    };
    if (official_split) {
      scan_official_pieces(text, emit);
    } else {
      for (const std::string_view piece : pre_tokenizer.split(text)) emit(piece);
    }
  }

  // Pass 0 finds the added tokens that are not normalized, pass 1 the others in what is left.
  void encode_special(std::string_view text, std::size_t pass, EncodeMemory& memory,
                      std::vector<TokenId>& out) const {
    if (pass == finders.size()) return encode_plain(text, memory, out);
    std::size_t done = 0;
    while (const auto match = finders[pass].find(text, done)) {
      if (match->begin > done) {
        encode_special(text.substr(done, match->begin - done), pass + 1, memory, out);
      }
      out.push_back(match->id);
      done = match->end;
    }
    if (done < text.size()) encode_special(text.substr(done), pass + 1, memory, out);
  }

  void apply_policy(TokenizerCompatibility compatibility, const TokenizerConfig& config,
                    const std::optional<std::string>& template_bos, const std::string& origin);

  PreTokenizer pre_tokenizer;
  bool official_split;
  bool ignore_merges;
  TokenId file_vocab_size;
  std::vector<Flags> flags;
  StringTable texts;
  StringTable bytes;
  std::array<AddedTokenFinder, 2> finders;
  std::unordered_map<std::string_view, TokenId> ids;
  std::unordered_map<std::string_view, TokenId> ids_of_bytes;  // for ignore_merges only
  std::optional<BytePairEncoder> encoder;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> pad;
  bool adds_bos = false;
  mutable EncodeMemoryPool memories;
};

void Tokenizer::Impl::apply_policy(TokenizerCompatibility compatibility,
                                   const TokenizerConfig& config,
                                   const std::optional<std::string>& template_bos,
                                   const std::string& origin) {
  if (compatibility == TokenizerCompatibility::kRelease) {
    const auto required = [&](std::string_view spelling, TokenId id) {
      const std::optional<TokenId> found = find(spelling);
      if (found != id) {
        fail_checkpoint(origin + ": added_tokens: '" + std::string(spelling) + "' must have id " +
                        std::to_string(id) + " with tokenizer_compatibility 'release', but " +
                        (found ? "has id " + std::to_string(*found) : "is missing"));
      }
      return id;
    };
    bos = required(kOfficialBos, 0);
    eos = required(kOfficialEos, 1);
    pad = required(kOfficialPad, 2);
    adds_bos = true;
    return;
  }
  const auto chosen = [&](const std::optional<std::string>& configured, std::string_view official,
                          const char* key) {
    const std::optional<TokenId> found =
        find(configured ? std::string_view(*configured) : official);
    if (configured && !found) {
      fail_checkpoint(origin + ": tokenizer_config.json's " + key + " '" + *configured +
                      "' is not in the vocabulary");
    }
    return found;
  };
  bos = chosen(template_bos ? template_bos : config.bos_token, kOfficialBos, "bos_token");
  eos = chosen(config.eos_token, kOfficialEos, "eos_token");
  pad = chosen(config.pad_token, kOfficialPad, "pad_token");
  adds_bos = config.add_bos_token || template_bos.has_value();
  if (adds_bos && !bos) fail_checkpoint(origin + ": add_bos_token is true, but there is no BOS");
}

TokenizerCompatibility parse_tokenizer_compatibility(std::string_view text,
                                                     std::string_view origin) {
  if (text == "release") return TokenizerCompatibility::kRelease;
  if (text == "native") return TokenizerCompatibility::kNative;
  fail_checkpoint(std::string(origin) + ": tokenizer_compatibility is '" + std::string(text) +
                  "', 'release' or 'native' is expected");
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& directory,
                          TokenizerCompatibility compatibility) {
  const std::filesystem::path file = directory / "tokenizer.json";
  const std::filesystem::path config = directory / "tokenizer_config.json";
  const std::string json = read_file(file);
  const std::string config_json = std::filesystem::exists(config) ? read_file(config) : "";
  return from_json(json, file.string(), compatibility, config_json);
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& origin,
                               TokenizerCompatibility compatibility, std::string_view config_json) {
  const TokenizerDefinition definition = parse_tokenizer_file(json, origin);
  const TokenizerConfig config = config_json.empty()
                                     ? TokenizerConfig{}
                                     : parse_tokenizer_config(config_json, origin + " (config)");
  auto impl = std::make_unique<Impl>(definition, origin);
  if (compatibility == TokenizerCompatibility::kRelease) impl->add_placeholders();
  impl->index_spellings(definition.merges);
  impl->apply_policy(compatibility, config, definition.template_bos, origin);
  return Tokenizer(std::move(impl));
}

std::vector<TokenId> Tokenizer::encode(std::string_view utf8, EncodeOptions options) const {
  require_valid_utf8(utf8, "the text");
  std::vector<TokenId> ids;
  ids.reserve(utf8.size() / 3 + 2);
  if (options.add_bos) {
    if (!impl_->bos) fail_argument("BOS is asked for, but the tokenizer has none");
    ids.push_back(*impl_->bos);
  }
  std::unique_ptr<EncodeMemory> memory = impl_->memories.take();
  if (options.parse_special) {
    impl_->encode_special(utf8, 0, *memory, ids);
  } else {
    impl_->encode_plain(utf8, *memory, ids);
  }
  impl_->memories.give_back(std::move(memory));
  if (options.add_bos && ids.size() > 1 && ids[1] == ids[0]) ids.erase(ids.begin());
  return ids;
}

std::vector<TokenId> Tokenizer::encode_prompt(std::string_view utf8,
                                              std::span<const SpecialRange> special_ranges) const {
  require_valid_utf8(utf8, "the prompt");
  std::vector<TokenId> ids;
  ids.reserve(utf8.size() / 3 + 2);
  std::unique_ptr<EncodeMemory> memory = impl_->memories.take();
  std::size_t done = 0;
  for (const SpecialRange& range : special_ranges) {
    const std::string place =
        "special range " + std::to_string(range.begin) + ".." + std::to_string(range.end);
    if (range.begin < done || range.end < range.begin || range.end > utf8.size()) {
      fail_argument(place + " overlaps the one before or leaves the prompt of " +
                    std::to_string(utf8.size()) + " bytes");
    }
    const std::string_view spelling = utf8.substr(range.begin, range.end - range.begin);
    const std::optional<TokenId> id = impl_->find(spelling);
    if (!id || !is_added(*id)) {
      fail_argument(place + " holds '" + std::string(spelling) + "', which is no added token");
    }
    impl_->encode_plain(utf8.substr(done, range.begin - done), *memory, ids);
    ids.push_back(*id);
    done = range.end;
  }
  impl_->encode_plain(utf8.substr(done), *memory, ids);
  impl_->memories.give_back(std::move(memory));
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    const std::string_view token = token_bytes(id);
    if (!skip_special || !impl_->flags[static_cast<std::size_t>(id)].special) bytes += token;
  }
  if (valid_utf8_prefix(bytes) == bytes.size()) return bytes;
  std::string text;
  append_utf8_lossy(bytes, false, text);
  return text;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  impl_->require_known(id);
  return impl_->bytes[id];
}

std::string_view Tokenizer::token_text(TokenId id) const {
  impl_->require_known(id);
  return impl_->texts[id];
}

std::optional<TokenId> Tokenizer::token_id(std::string_view spelling) const {
  return impl_->find(spelling);
}

bool Tokenizer::is_special(TokenId id) const {
  impl_->require_known(id);
  return impl_->flags[static_cast<std::size_t>(id)].special;
}

bool Tokenizer::is_added(TokenId id) const {
  impl_->require_known(id);
  return impl_->flags[static_cast<std::size_t>(id)].added;
}

TokenId Tokenizer::vocab_size() const { return impl_->file_vocab_size; }
TokenId Tokenizer::id_limit() const { return impl_->texts.size(); }
std::optional<TokenId> Tokenizer::bos_id() const { return impl_->bos; }
std::optional<TokenId> Tokenizer::eos_id() const { return impl_->eos; }
std::optional<TokenId> Tokenizer::pad_id() const { return impl_->pad; }
bool Tokenizer::adds_bos() const { return impl_->adds_bos; }
bool Tokenizer::uses_fast_scanner() const { return impl_->official_split; }

}  // namespace deepinfer
