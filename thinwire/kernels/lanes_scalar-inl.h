// Only for lanes-inl.h: plain C++, the reference of all others.
#pragma once

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

using Vector = float;
struct Group {
  Vector v[kBlockUnit];
};

template <typename Elements>
THINWIRE_INLINE Group Load(Elements, const std::byte* in) {
  Group x;
  for (int64_t i = 0; i < kBlockUnit; ++i) x.v[i] = Elements::Load(in, i);
  return x;
}

template <typename Elements>
THINWIRE_INLINE void Store(Elements, std::byte* out, const Group& x) {
  for (int64_t i = 0; i < kBlockUnit; ++i) Elements::Store(out, i, x.v[i]);
}

class Extremes {
 public:
  THINWIRE_INLINE void Add(const Group& x) {
    for (const float value : x.v) {
      const uint32_t key = ExtremeKey(__builtin_bit_cast(uint32_t, value));
      key_ = key > key_ ? key : key_;
    }
  }
  THINWIRE_INLINE uint32_t Key() const { return key_; }

 private:
  uint32_t key_ = 0;
};

// 1.5 x 2^23 has an ulp of 1: the sum rounds to an integer, which its lower bits then hold.
constexpr float kRounder = 0x1.8p23f;

THINWIRE_INLINE int32_t Rounded(float x) {
  return static_cast<int32_t>(__builtin_bit_cast(uint32_t, x + kRounder) -
                              __builtin_bit_cast(uint32_t, kRounder));
}

THINWIRE_INLINE void StoreInt8(std::byte* out, const Group& x) {
  for (int64_t i = 0; i < kBlockUnit; ++i) out[i] = static_cast<std::byte>(Rounded(x.v[i]));
}

THINWIRE_INLINE void StoreInt4(std::byte* out, const Group& x) {
  const auto code = [&](int64_t i) {
    const int32_t rounded = Rounded(x.v[i]);
    return static_cast<uint32_t>(rounded > 7 ? 7 : rounded) & 15u;
  };
  for (int64_t i = 0; i < kBlockUnit; i += 2) {
    out[i / 2] = static_cast<std::byte>(code(i) | code(i + 1) << 4);
  }
}

THINWIRE_INLINE void RoundedBytes(const Group& x, Bytes32& out) {
  for (int64_t i = 0; i < kBlockUnit; ++i) out[i] = static_cast<uint8_t>(Rounded(x.v[i]));
}

class Int8Decoder {
 public:
  Int8Decoder() = default;
  THINWIRE_INLINE explicit Int8Decoder(float factor) : factor_(factor) {}
  THINWIRE_INLINE Group Decode(const std::byte* in) const {
    Group x;
    for (int64_t i = 0; i < kBlockUnit; ++i) {
      x.v[i] = static_cast<float>(static_cast<int8_t>(in[i])) * factor_;
    }
    return x;
  }

 private:
  float factor_;
};

THINWIRE_INLINE Group Widened(const Bytes32& codes, float factor) {
  Group x;
  for (int64_t i = 0; i < kBlockUnit; ++i) {
    x.v[i] = static_cast<float>(static_cast<int8_t>(codes[i])) * factor;
  }
  return x;
}

class Int4Decoder {
 public:
  Int4Decoder() = default;
  THINWIRE_INLINE explicit Int4Decoder(float factor) : factor_(factor) {}
  THINWIRE_INLINE Group Decode(const std::byte* in) const {
    Group x;
    for (int64_t i = 0; i < kBlockUnit; ++i) {
      const uint32_t code = (static_cast<uint32_t>(in[i / 2]) >> (i % 2 * 4)) & 15u;
      x.v[i] = static_cast<float>(static_cast<int32_t>(code ^ 8u) - 8) * factor_;
    }
    return x;
  }

 private:
  float factor_;
};

THINWIRE_INLINE Group Rounded(const Group& x) {
  Group result;
  for (int64_t i = 0; i < kBlockUnit; ++i) result.v[i] = (x.v[i] + kRounder) - kRounder;
  return result;
}

THINWIRE_INLINE Group Bounded(Group x, float low, float high) {
  for (float& value : x.v) {
    value = value < low ? low : value;
    value = value > high ? high : value;
  }
  return x;
}

THINWIRE_INLINE Group Canonical(Group x) {
  for (float& value : x.v) value = Canonical(value);
  return x;
}

// One lane has no pairs.
template <int kStride>
THINWIRE_INLINE Vector Butterfly(Vector x) {
  return x;
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
