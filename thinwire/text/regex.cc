#include "thinwire/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <new>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::text {
namespace {

constexpr size_t kStackStart = 32 << 10;
constexpr size_t kStackLimit = 64 << 20;  // reserved address space; pages are touched on demand

// White_Space: tab to carriage return, U+0085 and the separators.
constexpr std::string_view kSpaces = R"(\t-\r\x{85}\p{Z})";

std::string WithUnicodeSpaces(std::string_view expression) {
  std::string result;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c != '\\' || i + 1 == expression.size()) {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      result.push_back(c);
      continue;
    }
    const char escaped = expression[++i];
    if (escaped == 's') {
      result += in_class ? std::string(kSpaces) : StrCat("[", kSpaces, "]");
    } else if (escaped == 'S' && !in_class) {
      result += StrCat("[^", kSpaces, "]");
    } else {
      result.push_back(c);
      result.push_back(escaped);
    }
  }
  return result;
}

std::string MessageOf(int code) {
  std::array<PCRE2_UCHAR, 256> message{};
  pcre2_get_error_message(code, message.data(), message.size());
  return reinterpret_cast<const char*>(message.data());
}

}  // namespace

struct RegexMemory::Impl {
  Impl()
      : match(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kStackStart, kStackLimit, nullptr)) {
    if (match == nullptr || context == nullptr) throw std::bad_alloc();
    // Without the stack, as where no code may be made at run time, matching uses the thread's own.
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_match_limit(context, UINT32_MAX);  // a run of a million spaces is no attack
  }
  ~Impl() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  pcre2_match_data* match;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

RegexMemory::RegexMemory() : impl_(std::make_unique<Impl>()) {}
RegexMemory::~RegexMemory() = default;
RegexMemory::RegexMemory(RegexMemory&&) noexcept = default;
RegexMemory& RegexMemory::operator=(RegexMemory&&) noexcept = default;

struct Regex::Impl {
  explicit Impl(pcre2_code* compiled)
      : code(compiled), jit(pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0) {}
  ~Impl() { pcre2_code_free(code); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  pcre2_code* code;
  bool jit;
};

Regex::Regex(std::string_view expression) {
  const std::string pattern = WithUnicodeSpaces(expression);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code == nullptr) {
    throw UsageError(
        StrCat("expression '", pattern, "', character ", offset, ": ", MessageOf(error)));
  }
  impl_ = std::make_unique<Impl>(code);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

bool Regex::Find(std::string_view text, size_t from, RegexMemory* memory, RegexMatch* match) const {
  RegexMemory::Impl& own = *memory->impl_;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto find = impl_->jit ? pcre2_jit_match : pcre2_match;
  const int found =
      find(impl_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, own.match, own.context);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) throw UsageError(StrCat("matching a text failed: ", MessageOf(found)));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(own.match);
  *match = {offsets[0], offsets[1]};
  return true;
}

}  // namespace thinwire::text
