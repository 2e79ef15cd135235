#include "thinwire/kernels/convert_isa.h"

#include "thinwire/kernels/elements-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

template <typename In, typename Out>
void ConvertLoop(const std::byte* in, std::byte* out, int64_t size) {
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) Out::Store(out, i, In::Load(in, i));
}

}  // namespace

void Convert(const std::byte* in, DType in_dtype, std::byte* out, DType out_dtype, int64_t size) {
  WithElements(in_dtype, [&](auto from) {
    WithElements(out_dtype,
                 [&](auto to) { ConvertLoop<decltype(from), decltype(to)>(in, out, size); });
  });
}

}  // namespace thinwire::kernels::THINWIRE_ISA
