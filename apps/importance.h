// How much each column of a matrix matters, from the file that llama.cpp's `llama-imatrix` writes:
// a GGUF file with, for a matrix NAME, the sums of squared activations of its columns
// (NAME.in_sum2) and how many there were (NAME.counts), one set per expert.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "thinwire/io/gguf.h"

namespace thinwire::app {

class Importances {
 public:
  // Throws UsageError when the file has no such sums.
  explicit Importances(const std::string& path);

  // Means of squared activations: `columns` of them for each of the tensor's matrices, one after
  // the other; those of an expert that was never asked are 1. Empty where the file says nothing of
  // this tensor. Throws UsageError naming the entry that does not fit it.
  std::vector<float> Of(const io::GgufTensor& tensor) const;

 private:
  io::GgufFile file_;
};

// The outermost extent of three and more; else 1.
int64_t MatricesOf(const io::GgufTensor& tensor);

}  // namespace thinwire::app
