#include "thinwire/kernels/convert.h"

#include <cstring>

#include "thinwire/kernels/convert_isa.h"

namespace thinwire::kernels {

void Convert(const ExecContext& context, ConstArray in, Array out) {
  THINWIRE_CHECK(in.size == out.size, in.size, " elements into ", out.size);
  if (in.size == 0) return;
  if (in.dtype == out.dtype) {
    std::memcpy(out.data, in.data, static_cast<size_t>(in.bytes()));
    return;
  }
  THINWIRE_PICK(context.isa, Convert)(in.data, in.dtype, out.data, out.dtype, in.size);
}

}  // namespace thinwire::kernels
