#include "thinwire/text/grammar_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/text/grammar_checks.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

using Op = Instruction::Op;
using Kind = Grammar::Kind;

constexpr size_t kMostInstructions = 1 << 18;

// Ranges of code points whose UTF-8 has the same length, up to each of these.
constexpr std::array<uint32_t, 4> kLengthEnds = {0x7F, 0x7FF, 0xFFFF, kLastCodePoint};

struct ByteRange {
  uint8_t first, last;
};
using ByteRanges = std::vector<ByteRange>;  // one after the other

// The code points from `first` to `last`, whose UTF-8 has one length, as sequences of byte ranges:
// cut until all bytes behind the first that differs run through all of 80..BF.
void AddSequences(uint32_t first, uint32_t last, std::vector<ByteRanges>& sequences) {
  for (uint32_t bits = 6; bits < 24; bits += 6) {
    const uint32_t low = (1u << bits) - 1;
    if ((first & ~low) == (last & ~low)) break;
    if ((first & low) != 0) {
      AddSequences(first, first | low, sequences);
      AddSequences((first | low) + 1, last, sequences);
      return;
    }
    if ((last & low) != low) {
      AddSequences(first, (last & ~low) - 1, sequences);
      AddSequences(last & ~low, last, sequences);
      return;
    }
  }
  std::string begin, end;
  AppendUtf8(first, &begin);
  AppendUtf8(last, &end);
  ByteRanges& ranges = sequences.emplace_back();
  for (size_t i = 0; i < begin.size(); ++i) {
    ranges.push_back({static_cast<uint8_t>(begin[i]), static_cast<uint8_t>(end[i])});
  }
}

class Compiler {
 public:
  explicit Compiler(const Grammar& grammar) : grammar_(grammar) {}

  GrammarProgram Compile() {
    entries_.assign(grammar_.rules().size(), kNowhere);
    Call(grammar_.root());
    Emit({.op = Op::kReturn});
    // Bodies of rules bring more rules, and what they repeat becomes one.
    while (!wanted_.empty() || !shared_wanted_.empty()) {
      if (!wanted_.empty()) {
        const int32_t rule = wanted_.back();
        wanted_.pop_back();
        entries_[static_cast<size_t>(rule)] = Here();
        Body(grammar_.rules()[static_cast<size_t>(rule)].body);
      } else {
        const Grammar::Node node = shared_wanted_.back();
        shared_wanted_.pop_back();
        shared_[node] = Here();
        Body(node);
      }
    }
    Link();
    FindClasses();
    return std::move(program_);
  }

 private:
  static constexpr uint32_t kNowhere = ~uint32_t{0};

  uint32_t Here() const { return static_cast<uint32_t>(program_.code.size()); }

  uint32_t Emit(const Instruction& instruction) {
    if (program_.code.size() >= kMostInstructions) {
      throw UsageError(StrCat("grammar: more than ", kMostInstructions,
                              " instructions; fewer or smaller repetitions {m,n} are needed"));
    }
    program_.code.push_back(instruction);
    return Here() - 1;
  }

  void Body(Grammar::Node node) {
    Compile(node);
    Emit({.op = Op::kReturn});
  }

  // The target is the number of the rule until Link.
  void Call(int32_t rule) {
    if (entries_[static_cast<size_t>(rule)] == kNowhere) {
      entries_[static_cast<size_t>(rule)] = 0;
      wanted_.push_back(rule);
    }
    calls_.push_back({Emit({.op = Op::kCall}), false, rule});
  }

  // As a rule of its own.
  void CallShared(Grammar::Node node) {
    if (shared_.emplace(node, 0).second) shared_wanted_.push_back(node);
    calls_.push_back({Emit({.op = Op::kCall}), true, node});
  }

  void Compile(Grammar::Node node) {
    const Grammar::Part& part = grammar_.part(node);
    switch (part.kind) {
      case Kind::kLiteral:
        for (const char c : grammar_.literal(part.index)) {
          const auto byte = static_cast<uint8_t>(c);
          Emit({.op = Op::kRange, .first = byte, .last = byte});
        }
        return;
      case Kind::kCharacters:
        return CompileCharacters(grammar_.characters(part.index));
      case Kind::kSequence:
        for (const Grammar::Node each : part.parts) Compile(each);
        return;
      case Kind::kChoice:
        return Alternatives(part.parts.size(), [&](size_t i) { Compile(part.parts[i]); });
      case Kind::kRepeat:
        return CompileRepeat(part);
      case Kind::kRule:
        return Call(part.index);
    }
  }

  template <typename F>
  void Alternatives(size_t count, const F& compile) {
    std::vector<uint32_t> ends;
    for (size_t i = 0; i + 1 < count; ++i) {
      const uint32_t split = Emit({.op = Op::kSplit});
      compile(i);
      ends.push_back(Emit({.op = Op::kJump}));
      program_.code[split].target = Here();
    }
    compile(count - 1);
    for (const uint32_t end : ends) program_.code[end].target = Here();
  }

  void CompileCharacters(const CodeRanges& ranges) {
    ByteSet ascii = {};
    std::vector<ByteRanges> sequences;
    for (const CodeRange& range : ranges) {
      uint32_t first = range.first;
      for (const uint32_t end : kLengthEnds) {
        if (first > std::min(end, range.last)) continue;
        if (end == kLengthEnds[0]) {
          for (uint32_t c = first; c <= std::min(end, range.last); ++c) {
            ascii[c >> 6] |= uint64_t{1} << (c & 63);
          }
        } else {
          AddSequences(first, std::min(end, range.last), sequences);
        }
        first = end + 1;
      }
    }
    const bool any_ascii = ascii != ByteSet{};
    Alternatives(sequences.size() + (any_ascii ? 1 : 0), [&](size_t i) {
      if (any_ascii && i == 0) {
        Emit({.op = Op::kSet, .target = SetOf(ascii)});
        return;
      }
      for (const ByteRange& byte : sequences[any_ascii ? i - 1 : i]) {
        Emit({.op = Op::kRange, .first = byte.first, .last = byte.last});
      }
    });
  }

  uint32_t SetOf(const ByteSet& set) {
    const auto [at, added] = sets_.emplace(set, static_cast<uint32_t>(program_.sets.size()));
    if (added) program_.sets.push_back(set);
    return at->second;
  }

  // Whether one instruction is all of it.
  bool IsSmall(Grammar::Node node) const {
    const Grammar::Part& part = grammar_.part(node);
    if (part.kind == Kind::kLiteral) return grammar_.literal(part.index).size() == 1;
    if (part.kind != Kind::kCharacters) return part.kind == Kind::kRule;
    return grammar_.characters(part.index).back().last <= kLengthEnds[0];
  }

  void CompileRepeat(const Grammar::Part& part) {
    const Grammar::Node node = part.parts[0];
    const int64_t copies = part.most == Grammar::kNoLimit ? part.least + 1 : part.most;
    // Many copies of a call are smaller than many copies of what is called.
    const auto compile = [&] { copies <= 1 || IsSmall(node) ? Compile(node) : CallShared(node); };
    for (int64_t i = 0; i < part.least; ++i) compile();
    if (part.most == Grammar::kNoLimit) {
      const uint32_t split = Emit({.op = Op::kSplit});
      compile();
      Emit({.op = Op::kJump, .target = split});
      program_.code[split].target = Here();
      return;
    }
    std::vector<uint32_t> splits;
    for (int64_t i = part.least; i < part.most; ++i) {
      splits.push_back(Emit({.op = Op::kSplit}));
      compile();
    }
    for (const uint32_t split : splits) program_.code[split].target = Here();
  }

  uint32_t Land(uint32_t at) const {
    while (program_.code[at].op == Op::kJump) at = program_.code[at].target;
    return at;
  }

  void Link() {
    for (const auto& [at, shared, what] : calls_) {
      Instruction& call = program_.code[at];
      call.target = shared ? shared_.at(what) : entries_[static_cast<size_t>(what)];
    }
    for (const auto& [at, shared, what] : calls_) {
      if (program_.code[Land(at + 1)].op == Op::kReturn) program_.code[at].op = Op::kGo;
    }
  }

  // Splits the bytes by each set in turn until none tells two of a class apart.
  void FindClasses() {
    std::array<uint8_t, 256>& class_of = program_.class_of;
    uint32_t classes = 1;
    const auto refine = [&](const auto& has) {
      std::array<int, 512> number;
      number.fill(-1);
      uint32_t next = 0;
      for (uint32_t byte = 0; byte < 256; ++byte) {
        int& found = number[2 * size_t{class_of[byte]} + (has(static_cast<uint8_t>(byte)) ? 1 : 0)];
        if (found < 0) found = static_cast<int>(next++);
        class_of[byte] = static_cast<uint8_t>(found);
      }
      classes = next;
    };
    std::array<bool, 65536> seen = {};
    for (const Instruction& each : program_.code) {
      if (each.op != Op::kRange) continue;
      if (std::exchange(seen[size_t{each.first} << 8 | each.last], true)) continue;
      refine([&](uint8_t byte) { return byte >= each.first && byte <= each.last; });
    }
    for (const ByteSet& set : program_.sets) refine([&](uint8_t byte) { return Has(set, byte); });
    program_.classes = classes;
  }

  struct CallSite {
    uint32_t at;
    bool shared;
    int32_t what;
  };

  const Grammar& grammar_;
  GrammarProgram program_;
  std::vector<uint32_t> entries_;  // of rules
  std::vector<int32_t> wanted_;
  std::map<Grammar::Node, uint32_t> shared_;
  std::vector<Grammar::Node> shared_wanted_;
  std::vector<CallSite> calls_;
  std::map<ByteSet, uint32_t> sets_;
};

}  // namespace

GrammarProgram CompileGrammar(const Grammar& grammar) {
  CheckGrammar(grammar);
  return Compiler(grammar).Compile();
}

}  // namespace thinwire::text
