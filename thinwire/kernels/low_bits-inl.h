// Only for low_bits_isa.cc: codes of int4 that are written in order, and those of int3 and ternary
// (quantize.h) written in order and read from any group on.
//
//   Writer(out, size)         for codes of `size` elements
//     Add(x, i, left)         elements i to i + 31, of which there are `left`; x is within the
//                             range of codes
//     AddZeros(i, left)       the same for codes of 0
//     Finish()                after the last
//   Reader(codes, size)
//     At(i, left, factor)     32 values from element i, a multiple of 32, on; what lies beyond the
//                             `left` last ones is no matter what
#pragma once

#include "thinwire/kernels/groups-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

typedef uint16_t Words16 __attribute__((vector_size(32)));
typedef uint32_t Words32 __attribute__((vector_size(32)));
typedef uint64_t Words64 __attribute__((vector_size(32)));

struct Int4Codes {
  static constexpr CodeType kType = CodeType::kInt4;
  static constexpr float kLow = -8, kHigh = 7;

  class Writer {
   public:
    THINWIRE_INLINE Writer(std::byte* out, int64_t) : out_(out) {}
    THINWIRE_INLINE void Add(const Group& x, int64_t i, int64_t left) {
      if (left >= kBlockUnit) [[likely]]
        return StoreInt4(out_ + i / 2, x);
      std::byte buffer[kBlockUnit / 2];
      StoreInt4(buffer, x);
      __builtin_memcpy(out_ + i / 2, buffer, static_cast<size_t>(left - left / 2));
    }
    THINWIRE_INLINE void AddZeros(int64_t i, int64_t left) { Add(Group{}, i, left); }
    THINWIRE_INLINE void Finish() {}

   private:
    std::byte* out_;
  };
};

struct Int3Codes {
  static constexpr CodeType kType = CodeType::kInt3;
  static constexpr float kLow = -4, kHigh = 3;
  static constexpr int64_t kGroupBytes = 12;

  // Of elements before a multiple of 8, or of a whole array.
  THINWIRE_INLINE static int64_t Bytes(int64_t size) {
    return size / 8 * 3 + (size % 8 * 3 + 7) / 8;
  }

  class Writer {
   public:
    THINWIRE_INLINE Writer(std::byte* out, int64_t) : out_(out) {}
    THINWIRE_INLINE void Add(const Group& x, int64_t i, int64_t left) {
      Bytes32 codes;
      RoundedBytes(x, codes);
      Put(codes, i, left);
    }
    THINWIRE_INLINE void AddZeros(int64_t i, int64_t left) { Put(Bytes32{}, i, left); }
    THINWIRE_INLINE void Finish() {}

   private:
    THINWIRE_INLINE void Put(const Bytes32& codes, int64_t i, int64_t left) {
      std::byte* const at = out_ + i / 8 * 3;
      if (left >= kBlockUnit) [[likely]]
        return Pack(codes, at);
      std::byte buffer[kGroupBytes];
      Pack(codes, buffer);
      __builtin_memcpy(at, buffer, static_cast<size_t>(Bytes(left)));
    }

    // Pairs of codes, then of pairs, then of fours move together; then 3 of each 8 bytes.
    THINWIRE_INLINE static void Pack(const Bytes32& codes, std::byte* out) {
      const Words16 ones = reinterpret_cast<Words16>(codes & 7);
      const Words32 twos = reinterpret_cast<Words32>((ones | ones >> 5) & 0x3f);
      const Words64 fours = reinterpret_cast<Words64>((twos | twos >> 10) & 0xfff);
      const Words64 eights = (fours | fours >> 20) & 0xffffff;
      const uint64_t low = eights[0] | eights[1] << 24 | eights[2] << 48;
      const uint32_t high = static_cast<uint32_t>(eights[2] >> 16 | eights[3] << 8);
      __builtin_memcpy(out, &low, sizeof(low));
      __builtin_memcpy(out + sizeof(low), &high, sizeof(high));
    }

    std::byte* out_;
  };

  class Reader {
   public:
    Reader() = default;
    THINWIRE_INLINE Reader(const std::byte* codes, int64_t) : codes_(codes) {}
    THINWIRE_INLINE Group At(int64_t i, int64_t left, float factor) const {
      const std::byte* const at = codes_ + i / 8 * 3;
      if (left >= kBlockUnit) [[likely]]
        return Unpacked(at, factor);
      return Unpacked(PaddedBytes(at, Bytes(left)).data, factor);
    }

   private:
    THINWIRE_INLINE static Group Unpacked(const std::byte* in, float factor) {
      uint64_t low = 0;
      uint32_t high = 0;
      __builtin_memcpy(&low, in, sizeof(low));
      __builtin_memcpy(&high, in + sizeof(low), sizeof(high));
      const Words64 eights =
          Words64{low, low >> 24, low >> 48 | uint64_t{high} << 16, uint64_t{high} >> 8} & 0xffffff;
      const Words32 fours = reinterpret_cast<Words32>((eights | eights << 20) & 0x00000fff00000fff);
      const Words16 twos = reinterpret_cast<Words16>((fours | fours << 10) & 0x003f003f);
      const Bytes32 ones = reinterpret_cast<Bytes32>((twos | twos << 5) & 0x0707);
      return Widened((ones ^ 4) - 4, factor);
    }

    const std::byte* codes_;
  };
};

struct TernaryCodes {
  static constexpr CodeType kType = CodeType::kTernary;
  static constexpr float kLow = -1, kHigh = 1;
  static constexpr int64_t kDigits = 5;
  static constexpr int64_t kChunk = kDigits * kBlockUnit;

  // A byte in [number / 243, (number + 1) / 243) of 256, by products that fit 16 bits.
  template <typename T>
  THINWIRE_INLINE static void ToByte(T& number) {
    number += (number * 55 + 1003) >> 10;
  }

  class Writer {
   public:
    THINWIRE_INLINE Writer(std::byte* out, int64_t size)
        : out_(out), whole_(size / kChunk * kChunk), size_(size) {}

    THINWIRE_INLINE void Add(const Group& x, int64_t i, int64_t) {
      Bytes32 codes;
      RoundedBytes(x, codes);
      Put(codes, i);
    }
    THINWIRE_INLINE void AddZeros(int64_t i, int64_t) { Put(Bytes32{}, i); }

    THINWIRE_INLINE void Finish() {
      const int64_t left = size_ - whole_, stride = (left + kDigits - 1) / kDigits;
      for (int64_t j = 0; j < stride; ++j) {
        uint32_t number = 0;
        for (int64_t k = 0; k < kDigits; ++k) {
          const int64_t at = k * stride + j;
          number = number * 3 + (at < left ? tail_[at] : 1);
        }
        ToByte(number);
        out_[whole_ / kDigits + j] = static_cast<std::byte>(number);
      }
    }

   private:
    THINWIRE_INLINE void Put(const Bytes32& codes, int64_t i) {
      const Bytes32 digits = codes + 1;
      if (i >= whole_) [[unlikely]] {
        __builtin_memcpy(tail_ + (i - whole_), &digits, sizeof(digits));
        return;
      }
      numbers_ = numbers_ * 3 + digits;
      if (++count_ < kDigits) return;
      const Words16 pairs = reinterpret_cast<Words16>(numbers_);
      Words16 even = pairs & 0xff, odd = pairs >> 8;
      ToByte(even);
      ToByte(odd);
      const Words16 bytes = even | odd << 8;
      __builtin_memcpy(out_ + i / kChunk * kBlockUnit, &bytes, sizeof(bytes));
      count_ = 0;
      numbers_ = Bytes32{};
    }

    std::byte* out_;
    int64_t whole_;
    int64_t size_;
    int64_t count_ = 0;
    Bytes32 numbers_ = {};
    uint8_t tail_[kChunk];
  };

  class Reader {
   public:
    Reader() = default;
    THINWIRE_INLINE Reader(const std::byte* codes, int64_t size)
        : codes_(codes), whole_(size / kChunk * kChunk), size_(size) {}

    THINWIRE_INLINE Group At(int64_t i, int64_t, float factor) const {
      Bytes32 codes;
      if (i < whole_) [[likely]] {
        constexpr uint16_t kPowers[kDigits] = {1, 3, 9, 27, 81};
        const int64_t digit = i % kChunk / kBlockUnit;
        Words16 pairs;
        __builtin_memcpy(&pairs, codes_ + i / kChunk * kBlockUnit, sizeof(pairs));
        // A byte is a fraction of 256: the digits before this one are whole numbers, which go.
        const Words16 even = (pairs & 0xff) * kPowers[digit] & 0xff;
        const Words16 odd = (pairs >> 8) * kPowers[digit] & 0xff;
        codes = reinterpret_cast<Bytes32>((even * 3 >> 8) | (odd * 3 & 0xff00));
      } else {
        ReadTail(i - whole_, codes);
      }
      return Widened(codes - 1, factor);
    }

   private:
    THINWIRE_INLINE void ReadTail(int64_t i, Bytes32& digits) const {
      const int64_t left = size_ - whole_, stride = (left + kDigits - 1) / kDigits;
      uint8_t found[kBlockUnit] = {};
      for (int64_t j = 0; j < kBlockUnit && i + j < left; ++j) {
        uint32_t fraction = static_cast<uint32_t>(codes_[whole_ / kDigits + (i + j) % stride]);
        for (int64_t k = (i + j) / stride; k > 0; --k) fraction = fraction * 3 & 0xff;
        found[j] = static_cast<uint8_t>(fraction * 3 >> 8);
      }
      __builtin_memcpy(&digits, found, sizeof(digits));
    }

    const std::byte* codes_;
    int64_t whole_;
    int64_t size_;
  };
};

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
