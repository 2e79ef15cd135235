// Regular expressions over UTF-8 (PCRE2, compiled to machine code where the processor and the
// system allow it), with Unicode's meaning of classes.
//
// `\s` and `\S` are White_Space and its complement, as in the libraries that tokenizers were made
// with; PCRE2's own would add U+180E.
#pragma once

#include <memory>
#include <string_view>

namespace thinwire::text {

struct RegexMatch {
  size_t begin = 0;
  size_t end = 0;
};

// What matching needs beyond the expression: one per thread, for any number of expressions.
// Allocates when made; afterwards only where an expression backtracks through 32 KiB of state.
class RegexMemory {
 public:
  RegexMemory();
  ~RegexMemory();
  RegexMemory(RegexMemory&&) noexcept;
  RegexMemory& operator=(RegexMemory&&) noexcept;

 private:
  friend class Regex;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class Regex {
 public:
  // UsageError naming the expression and the place where it is none.
  explicit Regex(std::string_view expression);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // The first match at or after `from`. `text` must be well-formed UTF-8 and `from` the beginning
  // of a character or the end. UsageError where the expression needs more memory than it may have.
  bool Find(std::string_view text, size_t from, RegexMemory* memory, RegexMatch* match) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::text
