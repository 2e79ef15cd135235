#include "apps/importance.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "thinwire/base/error.h"

namespace thinwire::app {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

// The floats of `tensor`, of which there must be `count`.
io::GgufArray<float> Floats(const io::GgufFile& file, const io::GgufTensor& tensor, int64_t count) {
  if (tensor.type != WeightType::kF32 || tensor.elements() != count) {
    throw UsageError(StrCat(file.path(), ": ", tensor.name, ": ", count, " F32 expected, found ",
                            tensor.elements(), " ", NameOf(tensor.type)));
  }
  return io::GgufArray<float>(tensor.data);
}

}  // namespace

int64_t MatricesOf(const io::GgufTensor& tensor) { return tensor.rank < 3 ? 1 : tensor.extents[0]; }

Importances::Importances(const std::string& path) : file_(path) {
  const bool any = std::ranges::any_of(
      file_.tensors(), [](const io::GgufTensor& tensor) { return tensor.name.ends_with(kSums); });
  if (!any) {
    throw UsageError(StrCat(path, ": no tensor is called NAME", kSums,
                            ": expected a file that llama-imatrix wrote, in the GGUF format"));
  }
}

std::vector<float> Importances::Of(const io::GgufTensor& tensor) const {
  const io::GgufTensor* sums = file_.FindTensor(StrCat(tensor.name, kSums));
  if (sums == nullptr) return {};
  const int64_t matrices = MatricesOf(tensor);
  const int64_t columns = tensor.columns();
  const io::GgufArray<float> squares = Floats(file_, *sums, matrices * columns);
  const io::GgufArray<float> counts =
      Floats(file_, file_.Tensor(StrCat(tensor.name, kCounts)), matrices);
  std::vector<float> means(squares.size());
  for (size_t i = 0; i < means.size(); ++i) {
    const float count = counts[i / static_cast<size_t>(columns)];
    means[i] = count > 0.0f ? squares[i] / count : 1.0f;
    if (means[i] >= 0.0f && std::isfinite(means[i])) continue;
    throw UsageError(StrCat(file_.path(), ": ", sums->name, ": element ", i, " is ", squares[i],
                            " of ", count, " activations: expected a sum of squares"));
  }
  return means;
}

}  // namespace thinwire::app
