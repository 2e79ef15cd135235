// Training data: text files as byte tokens, packed end to end, and the order in which their windows
// are drawn. Not tokenizers with a vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace thinwire::train {

// Every byte is its own token; this one ends a document.
constexpr int64_t kEndOfDocument = 256;
constexpr int64_t kByteVocabulary = 257;

// The files behind `patterns` (files, directories with all text files below them, globs), sorted
// by path, each once. Below a directory, hidden names and files with a NUL in their first 4 KiB are
// left out. Throws UsageError naming the pattern that matches nothing.
std::vector<std::string> FindFiles(std::span<const std::string> patterns);

// Files end to end, each followed by kEndOfDocument. Reads from the files when asked, so that it
// costs no memory however large they are.
class ByteCorpus {
 public:
  // Throws UsageError when a file cannot be read or all of them are empty.
  explicit ByteCorpus(std::vector<std::string> files);

  int64_t tokens() const { return ends_.empty() ? 0 : ends_.back(); }
  int64_t documents() const { return static_cast<int64_t>(files_.size()); }
  // Tokens [position, position + out.size()). Throws IoError when a file became shorter.
  void Read(int64_t position, std::span<int64_t> out) const;
  // Equal on ranks whose files have the same names (without directories) and sizes.
  uint64_t Fingerprint() const;

 private:
  std::vector<std::string> files_;
  std::vector<int64_t> ends_;  // of each document in tokens, its separator included
};

// A permutation of [0, size) that is a function of (key, index): a Feistel network of four rounds
// over the next even power of two, walked until it lands inside (at most 4 walks on average).
class Permutation {
 public:
  Permutation(int64_t size, uint64_t key);
  int64_t operator()(int64_t index) const;

 private:
  int64_t size_;
  uint64_t key_;
  int half_bits_;
};

// Windows of `sequence_length` inputs and as many targets (the next tokens) in one part of a
// corpus, drawn without repetition until all were drawn, then again in another order. Which window
// is sample number n depends on (seed, n) alone, not on ranks or batches.
class Sampler {
 public:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  // Throws UsageError when `range` is shorter than one window; `what` names the part.
  Sampler(const ByteCorpus& corpus, Range range, int64_t sequence_length, uint64_t seed,
          const std::string& what);

  int64_t windows() const { return windows_; }
  // inputs and targets have sequence_length elements.
  void Sample(int64_t number, std::span<int64_t> inputs, std::span<int64_t> targets) const;

 private:
  const ByteCorpus& corpus_;
  Range range_;
  int64_t sequence_length_;
  uint64_t seed_;
  int64_t windows_;
};

// The corpus cut in two: the last `evaluation_fraction` of its tokens is for evaluation.
struct Split {
  Sampler::Range train;
  Sampler::Range evaluation;
};
Split SplitCorpus(int64_t tokens, double evaluation_fraction);

}  // namespace thinwire::train
