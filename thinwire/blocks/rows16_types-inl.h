// Only for rows16_<isa>-inl.h: 16 rows in registers of the widest kind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/dtype.h"

// Steps are inlined where they are an instruction or two, and called where they are plain loops.
#define THINWIRE_ROWS_neon 1
#define THINWIRE_ROWS_avx2 1
#define THINWIRE_ROWS_avx512 1
#define THINWIRE_ROWS_CONCAT(a, b) a##b
#define THINWIRE_ROWS(isa) THINWIRE_ROWS_CONCAT(THINWIRE_ROWS_, isa)
#if THINWIRE_ROWS(THINWIRE_ISA)
#define THINWIRE_ROWS_CALL THINWIRE_INLINE
#else
#define THINWIRE_ROWS_CALL [[gnu::noinline, maybe_unused]]
#endif

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
