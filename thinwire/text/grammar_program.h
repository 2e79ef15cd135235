// A grammar compiled to instructions on bytes, which grammar_automaton.h runs.
//
// Characters become the byte sequences of their UTF-8 (The Unicode Standard, table 3-7), so a text
// that ends within a character is a state like any other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "thinwire/text/grammar.h"

namespace thinwire::text {

struct Instruction {
  enum class Op : uint8_t {
    kRange,  // a byte from `first` to `last`, then the next instruction
    kSet,    // a byte of set `target`, then the next instruction
    kSplit,  // goes on at `target` and at the next instruction
    kJump,   // goes on at `target`
    kCall,   // goes on at `target`; at its kReturn with the next instruction
    kGo,     // the same with nothing behind it: whoever called this is returned to
    kReturn,
  };
  Op op = Op::kReturn;
  uint8_t first = 0, last = 0;
  uint32_t target = 0;
};

// Of the 256 bytes.
using ByteSet = std::array<uint64_t, 4>;

inline bool Has(const ByteSet& set, uint8_t byte) {
  return (set[byte >> 6] >> (byte & 63) & 1) != 0;
}

struct GrammarProgram {
  std::vector<Instruction> code;
  std::vector<ByteSet> sets;
  uint32_t start = 0;
  // Bytes that no instruction tells apart have one class; classes are numbered from 0.
  std::array<uint8_t, 256> class_of{};
  uint32_t classes = 0;

  bool Takes(const Instruction& instruction, uint8_t byte) const {
    return instruction.op == Instruction::Op::kRange
               ? byte >= instruction.first && byte <= instruction.last
               : Has(sets[instruction.target], byte);
  }
};

// UsageError: a rule that begins with itself (left recursion) or can never end, by name; more than
// 2^18 instructions.
GrammarProgram CompileGrammar(const Grammar& grammar);

}  // namespace thinwire::text
