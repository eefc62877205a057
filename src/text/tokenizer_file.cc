#include "text/tokenizer_file.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;

// The pattern behind `ByteLevel` with `use_regex`: the file names it by that flag only.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Json parse_json_object(std::string_view text, const std::string& origin) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    fail_checkpoint(origin + ": not valid JSON at byte " + std::to_string(error.byte));
  } catch (const Json::exception& error) {
    fail_checkpoint(origin + ": not valid JSON: " + error.what());
  }
  if (!json.is_object()) fail_checkpoint(origin + ": a JSON object is expected");
  return json;
}

// A position in the file, for messages: "tokenizer.json: model.merges[7]: ...".
class Place {
 public:
  Place(const std::string& origin, std::string key) : origin_(&origin), key_(std::move(key)) {}

  Place operator/(const std::string& key) const {
    return {*origin_, key_.empty() ? key : key_ + "." + key};
  }
  Place operator[](std::size_t index) const {
    return {*origin_, key_ + "[" + std::to_string(index) + "]"};
  }
  [[noreturn]] void fail(const std::string& message) const {
    fail_checkpoint(*origin_ + ": " + key_ + ": " + message);
  }

 private:
  const std::string* origin_;
  std::string key_;
};

std::string in_quotes(std::string_view text) {
  std::string quoted = "'";
  quoted += text;
  quoted += '\'';
  return quoted;
}

bool absent(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null();
}

const Json& object_at(const Json& object, const std::string& key, const Place& place) {
  if (absent(object, key) || !object[key].is_object()) {
    (place / key).fail("an object is expected");
  }
  return object[key];
}

const Json& array_at(const Json& object, const std::string& key, const Place& place) {
  if (absent(object, key) || !object[key].is_array()) (place / key).fail("an array is expected");
  return object[key];
}

const std::string& string_at(const Json& object, const std::string& key, const Place& place) {
  if (absent(object, key) || !object[key].is_string()) (place / key).fail("a string is expected");
  return object[key].get_ref<const std::string&>();
}

bool bool_at(const Json& object, const std::string& key, bool missing, const Place& place) {
  if (absent(object, key)) return missing;
  if (!object[key].is_boolean()) (place / key).fail("true or false is expected");
  return object[key].get<bool>();
}

void refuse_true(const Json& object, const std::string& key, const Place& place) {
  if (bool_at(object, key, false, place)) (place / key).fail("true is not supported");
}

void refuse_text(const Json& object, const std::string& key, const Place& place) {
  if (!absent(object, key) && object[key] != "") {
    (place / key).fail(object[key].dump() + " is not supported, null is expected");
  }
}

class FileParser {
 public:
  FileParser(const Json& json, const std::string& origin) : json_(json), root_(origin, "") {}

  TokenizerDefinition parse() {
    for (const char* key : {"truncation", "padding"}) {
      if (!absent(json_, key)) (root_ / key).fail("only null is supported");
    }
    parse_normalizer();
    parse_pre_tokenizer();
    parse_post_processor();
    parse_decoder();
    parse_vocabulary();
    parse_merges();
    return std::move(definition_);
  }

 private:
  void parse_normalizer() {
    if (absent(json_, "normalizer")) return;
    const Place place = root_ / "normalizer";
    const Json& normalizer = object_at(json_, "normalizer", root_);
    const std::string& type = string_at(normalizer, "type", place);
    if (type != "Sequence") (place / "type").fail(in_quotes(type) + " is not supported");
    if (!array_at(normalizer, "normalizers", place).empty()) {
      (place / "normalizers").fail("only the empty sequence is supported");
    }
  }

  void parse_pre_tokenizer() {
    const Json& pre_tokenizer = object_at(json_, "pre_tokenizer", root_);
    const Place place = root_ / "pre_tokenizer";
    if (string_at(pre_tokenizer, "type", place) != "Sequence") {
      parse_step(pre_tokenizer, true, place);
      return;
    }
    const Json& steps = array_at(pre_tokenizer, "pretokenizers", place);
    if (steps.empty()) (place / "pretokenizers").fail("a ByteLevel step is expected at the end");
    for (std::size_t index = 0; index < steps.size(); ++index) {
      const Place step_place = (place / "pretokenizers")[index];
      if (!steps[index].is_object()) step_place.fail("an object is expected");
      parse_step(steps[index], index + 1 == steps.size(), step_place);
    }
  }

  void parse_step(const Json& step, bool last, const Place& place) {
    const std::string& type = string_at(step, "type", place);
    if (type == "ByteLevel") {
      if (!last) place.fail("ByteLevel is supported as the last step only");
      // The library's default is true.
      if (bool_at(step, "add_prefix_space", true, place)) {
        (place / "add_prefix_space").fail("true is not supported");
      }
      if (bool_at(step, "use_regex", true, place)) {
        definition_.split_steps.push_back({std::string(kByteLevelPattern), false});
      }
      return;
    }
    if (type != "Split") (place / "type").fail(in_quotes(type) + " is not supported");
    if (last) place.fail("the last step must be ByteLevel");
    const std::string& behavior = string_at(step, "behavior", place);
    if (behavior != "Isolated")
      (place / "behavior").fail(in_quotes(behavior) + " is not supported");
    refuse_true(step, "invert", place);
    const Json& pattern = object_at(step, "pattern", place);
    const Place pattern_place = place / "pattern";
    const bool is_literal = pattern.contains("String");
    const std::string& text = string_at(pattern, is_literal ? "String" : "Regex", pattern_place);
    if (text.empty()) pattern_place.fail("an empty pattern");
    definition_.split_steps.push_back({text, is_literal});
  }

  void parse_post_processor() {
    if (absent(json_, "post_processor")) return;
    parse_processor(object_at(json_, "post_processor", root_), root_ / "post_processor");
  }

  void parse_processor(const Json& processor, const Place& place) {
    const std::string& type = string_at(processor, "type", place);
    if (type == "ByteLevel") return;  // it moves offsets, never ids
    if (type == "Sequence") {
      const Json& processors = array_at(processor, "processors", place);
      for (std::size_t index = 0; index < processors.size(); ++index) {
        const Place inner = (place / "processors")[index];
        if (!processors[index].is_object()) inner.fail("an object is expected");
        if (string_at(processors[index], "type", inner) == "Sequence") {
          inner.fail("a sequence within a sequence is not supported");
        }
        parse_processor(processors[index], inner);
      }
      return;
    }
    if (type != "TemplateProcessing") (place / "type").fail(in_quotes(type) + " is not supported");
    const Json& single = array_at(processor, "single", place);
    const Place single_place = place / "single";
    const bool has_bos = single.size() == 2;
    if (single.empty() || single.size() > 2 || !single.back().is_object() ||
        !single.back().contains("Sequence")) {
      single_place.fail("only [text] and [one special token, text] are supported");
    }
    if (!has_bos) return;
    if (!single[0].is_object()) single_place[0].fail("an object is expected");
    const Json& special = object_at(single[0], "SpecialToken", single_place[0]);
    definition_.template_bos = string_at(special, "id", single_place[0] / "SpecialToken");
  }

  void parse_decoder() {
    const Place place = root_ / "decoder";
    const std::string& type = string_at(object_at(json_, "decoder", root_), "type", place);
    if (type != "ByteLevel") (place / "type").fail(in_quotes(type) + " is not supported");
  }

  TokenId parse_id(const Json& value, const Place& place, std::size_t limit) const {
    if (!value.is_number_integer()) place.fail("an integer is expected");
    if (value < 0 || value >= limit) {
      place.fail("id " + value.dump() + " is outside 0.." + std::to_string(limit - 1) +
                 ": ids must be dense");
    }
    return value.get<TokenId>();
  }

  void place_spelling(TokenId id, const std::string& spelling, const Place& place) {
    std::string& slot = definition_.spellings[static_cast<std::size_t>(id)];
    if (!slot.empty()) {
      place.fail("id " + std::to_string(id) + " is given to both " + in_quotes(slot) + " and " +
                 in_quotes(spelling));
    }
    slot = spelling;
  }

  void parse_vocabulary() {
    const Json& model = object_at(json_, "model", root_);
    const Place place = root_ / "model";
    const std::string& type = string_at(model, "type", place);
    if (type != "BPE")
      (place / "type").fail(in_quotes(type) + " is not supported, BPE is expected");
    if (!absent(model, "dropout") && model["dropout"] != 0.0) {
      (place / "dropout").fail(model["dropout"].dump() + " is not supported");
    }
    refuse_text(model, "continuing_subword_prefix", place);
    refuse_text(model, "end_of_word_suffix", place);
    refuse_true(model, "byte_fallback", place);
    definition_.ignore_merges = bool_at(model, "ignore_merges", false, place);

    const Json& vocab = object_at(model, "vocab", place);
    static const Json kNoTokens = Json::array();
    const Json& added =
        absent(json_, "added_tokens") ? kNoTokens : array_at(json_, "added_tokens", root_);
    std::size_t total = vocab.size();
    for (const Json& entry : added) {
      const bool known = entry.is_object() && !absent(entry, "content") &&
                         entry["content"].is_string() &&
                         vocab.contains(entry["content"].get_ref<const std::string&>());
      if (!known) ++total;
    }

    definition_.model_vocab_size = static_cast<TokenId>(vocab.size());
    definition_.spellings.resize(total);
    ids_.reserve(vocab.size());
    for (const auto& [spelling, value] : vocab.items()) {
      const Place entry_place = place / "vocab";
      if (spelling.empty()) entry_place.fail("an empty token");
      if (!value.is_number_integer()) {
        entry_place.fail(in_quotes(spelling) + " has " + value.dump() + ", an integer is expected");
      }
      const TokenId id = parse_id(value, entry_place, total);
      place_spelling(id, spelling, entry_place);
      ids_.emplace(spelling, id);
    }
    for (int byte = 0; byte < 256; ++byte) {
      const char character = static_cast<char>(byte);
      const std::string spelling = to_byte_alphabet({&character, 1});
      if (!ids_.contains(spelling)) {
        (place / "vocab")
            .fail("no token for byte " + std::to_string(byte) + ", spelled " + in_quotes(spelling));
      }
    }
    for (std::size_t index = 0; index < added.size(); ++index) {
      parse_added_token(added[index], total, (root_ / "added_tokens")[index]);
    }
  }

  void parse_added_token(const Json& entry, std::size_t total, const Place& place) {
    if (!entry.is_object()) place.fail("an object is expected");
    AddedToken token;
    token.content = string_at(entry, "content", place);
    if (token.content.empty()) (place / "content").fail("an empty token");
    if (!added_contents_.insert(token.content).second) {
      (place / "content").fail(in_quotes(token.content) + " is there twice");
    }
    if (!entry.contains("id")) (place / "id").fail("an integer is expected");
    token.id = parse_id(entry["id"], place / "id", total);
    token.special = bool_at(entry, "special", false, place);
    token.normalized = bool_at(entry, "normalized", !token.special, place);
    for (const char* flag : {"single_word", "lstrip", "rstrip"}) refuse_true(entry, flag, place);

    const auto in_model = ids_.find(token.content);
    if (in_model == ids_.end()) {
      place_spelling(token.id, token.content, place / "id");
    } else if (in_model->second != token.id) {
      (place / "id")
          .fail(in_quotes(token.content) + " has id " + std::to_string(token.id) + " here and " +
                std::to_string(in_model->second) + " in model.vocab");
    }
    definition_.added_tokens.push_back(std::move(token));
  }

  void parse_merges() {
    const Place model_place = root_ / "model";
    const Json& merges = array_at(json_["model"], "merges", model_place);
    std::unordered_set<std::uint64_t> seen;
    seen.reserve(merges.size());
    definition_.merges.reserve(merges.size());
    std::string left;
    std::string right;
    std::string merged;
    for (std::size_t index = 0; index < merges.size(); ++index) {
      const auto place = [&] { return (model_place / "merges")[index]; };
      const Json& entry = merges[index];
      if (entry.is_string()) {
        const auto& text = entry.get_ref<const std::string&>();
        const std::size_t blank = text.find(' ');
        if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos) {
          place().fail(in_quotes(text) + " is not two tokens with a blank between them");
        }
        left.assign(text, 0, blank);
        right.assign(text, blank + 1);
      } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
                 entry[1].is_string()) {
        left = entry[0].get_ref<const std::string&>();
        right = entry[1].get_ref<const std::string&>();
      } else {
        place().fail("two tokens are expected");
      }
      merged = left;
      merged += right;
      const auto part = [&](const std::string& spelling) {
        const auto found = ids_.find(spelling);
        if (found == ids_.end()) place().fail(in_quotes(spelling) + " is not in model.vocab");
        return found->second;
      };
      const Merge merge{part(left), part(right), part(merged)};
      const auto key =
          static_cast<std::uint64_t>(merge.left) << 32 | static_cast<std::uint64_t>(merge.right);
      if (!seen.insert(key).second) place().fail("the same merge is there twice");
      definition_.merges.push_back(merge);
    }
  }

  const Json& json_;
  Place root_;
  TokenizerDefinition definition_;
  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_set<std::string> added_contents_;
};

}  // namespace

TokenizerDefinition parse_tokenizer_file(std::string_view json, const std::string& origin) {
  const Json parsed = parse_json_object(json, origin);
  return FileParser(parsed, origin).parse();
}

TokenizerConfig parse_tokenizer_config(std::string_view json, const std::string& origin) {
  const Json parsed = parse_json_object(json, origin);
  const Place root(origin, "");
  const auto token = [&](const std::string& key) -> std::optional<std::string> {
    if (absent(parsed, key)) return std::nullopt;
    if (parsed[key].is_object()) return string_at(parsed[key], "content", root / key);
    return string_at(parsed, key, root);
  };
  TokenizerConfig config;
  config.bos_token = token("bos_token");
  config.eos_token = token("eos_token");
  config.pad_token = token("pad_token");
  config.add_bos_token = bool_at(parsed, "add_bos_token", false, root);
  refuse_true(parsed, "add_eos_token", root);
  return config;
}

}  // namespace deepinfer
