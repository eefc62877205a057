#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace deepinfer {

/// Rewrites a pattern of tokenizer.json (Oniguruma's syntax) so that PCRE2 matches the same text:
/// categories get the members that PCRE2's tables lack, `\s` becomes its list of characters. Throws
/// Error(kCheckpoint) naming `origin` on any syntax that isn't known to mean the same in both.
std::string translate_pattern(std::string_view pattern, const std::string& origin);

/// A compiled pattern. Constant after construction; any number of threads may search at once, each
/// with a Scratch of its own.
class Regex {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
  };

  /// The working memory of a search.
  class Scratch {
   public:
    explicit Scratch(const Regex& regex);
    ~Scratch();
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;

   private:
    friend class Regex;
    struct Data;
    std::unique_ptr<Data> data_;
  };

  /// `pattern` as in tokenizer.json; with `is_literal` it is plain text. Throws Error(kCheckpoint)
  /// naming `origin` when the pattern isn't supported, is malformed, or can match nothing at all.
  Regex(std::string_view pattern, bool is_literal, const std::string& origin);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// The leftmost match that starts at `offset` or later. `subject` must be valid UTF-8 and is all
  /// that lookaround sees. Throws Error(kCheckpoint) when the pattern needs more steps or memory
  /// than PCRE2's limits allow.
  std::optional<Match> find(std::string_view subject, std::size_t offset, Scratch& scratch) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace deepinfer
