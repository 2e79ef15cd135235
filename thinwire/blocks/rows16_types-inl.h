// Only for rows16_<isa>-inl.h: 16 rows in registers of the widest kind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/dtype.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;  // what every processor of 64 bits has
#endif
constexpr int kParts = 64 / kVectorBytes;

typedef uint8_t NativeBytes __attribute__((vector_size(kVectorBytes)));
typedef uint32_t NativeWords __attribute__((vector_size(kVectorBytes)));
typedef int32_t NativeInts __attribute__((vector_size(kVectorBytes)));
typedef float NativeFloats __attribute__((vector_size(kVectorBytes)));

struct Words {  // of each row four bytes
  NativeWords v[kParts];
};
struct Ints {
  NativeInts v[kParts];
};
struct Floats {
  NativeFloats v[kParts];
};

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
