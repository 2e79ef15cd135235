#include "thinwire/codec/scale_coder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thinwire/base/error.h"
#include "thinwire/kernels/entropy.h"

namespace thinwire::codec {
namespace {

using kernels::SymbolModel;

constexpr size_t kTile = 8192;
constexpr uint32_t kMagnitude = 0x7fff;

// Of the scales of one tile. Distances and scales are 16 bits, whatever comes in.
class Prediction {
 public:
  uint32_t Distance(uint32_t magnitude) {
    if (magnitude == 0) return 0;
    const int32_t d = static_cast<int32_t>(magnitude) - predicted();
    Learn(magnitude);
    return static_cast<uint32_t>(d >= 0 ? 2 * d + 1 : -2 * d);
  }
  uint32_t Magnitude(uint32_t distance) {
    if (distance == 0) return 0;
    const int32_t half = static_cast<int32_t>(distance / 2);
    const int32_t m = distance % 2 == 1 ? predicted() + half : predicted() - half;
    const uint32_t magnitude = static_cast<uint32_t>(m) & kMagnitude;
    if (magnitude > 0) Learn(magnitude);
    return magnitude;
  }

 private:
  int32_t predicted() const { return sixteenfold_ / 16; }
  void Learn(uint32_t magnitude) {
    const int32_t now = 16 * static_cast<int32_t>(magnitude);
    sixteenfold_ = sixteenfold_ == 0 ? now : sixteenfold_ + (now - sixteenfold_) / 8;
  }

  int32_t sixteenfold_ = 0;
};

struct Planes {
  std::array<std::byte, kTile> low, high;
  std::array<std::byte, kTile / 8> signs;
};

uint32_t ScaleAt(std::span<const std::byte> scales, size_t i) {
  uint16_t bits = 0;
  std::memcpy(&bits, scales.data() + 2 * i, sizeof(bits));
  return bits;
}

// Whether some sign is set.
bool Split(std::span<const std::byte> scales, Planes& planes) {
  Prediction prediction;
  planes.signs.fill(std::byte{0});
  bool any = false;
  for (size_t i = 0; i < scales.size() / 2; ++i) {
    const uint32_t bits = ScaleAt(scales, i);
    const uint32_t distance = prediction.Distance(bits & kMagnitude);
    planes.low[i] = static_cast<std::byte>(distance);
    planes.high[i] = static_cast<std::byte>(distance >> 8);
    planes.signs[i / 8] |= static_cast<std::byte>((bits >> 15) << i % 8);
    any = any || bits >> 15 != 0;
  }
  return any;
}

void Join(const Planes& planes, std::span<std::byte> scales) {
  Prediction prediction;
  for (size_t i = 0; i < scales.size() / 2; ++i) {
    const uint32_t distance =
        std::to_integer<uint32_t>(planes.low[i]) | std::to_integer<uint32_t>(planes.high[i]) << 8;
    const uint32_t sign = std::to_integer<uint32_t>(planes.signs[i / 8]) >> i % 8 & 1;
    const uint16_t bits = static_cast<uint16_t>(prediction.Magnitude(distance) | sign << 15);
    std::memcpy(scales.data() + 2 * i, &bits, sizeof(bits));
  }
}

size_t SignBytes(size_t scales) { return (scales + 7) / 8; }

// Takes what fills `out` off `in`; false when there is no such code.
bool TakePlane(const ExecContext& context, std::span<const std::byte>& in,
               std::span<std::byte> out) {
  const int64_t used = kernels::Expand(context, SymbolModel::kDistances, in, out);
  if (used < 0) return false;
  in = in.subspan(static_cast<size_t>(used));
  return true;
}

bool TakeSigns(std::span<const std::byte>& in, std::span<std::byte> signs) {
  if (in.empty()) return false;
  const std::byte any = in[0];
  in = in.subspan(1);
  if (any == std::byte{0}) {
    std::ranges::fill(signs, std::byte{0});
    return true;
  }
  if (any != std::byte{1} || in.size() < signs.size()) return false;
  std::ranges::copy(in.first(signs.size()), signs.begin());
  in = in.subspan(signs.size());
  return true;
}

}  // namespace

int64_t MostScaleBytes(int64_t scales) {
  constexpr int64_t kScales = kTile;
  const int64_t tiles = (scales + kScales - 1) / kScales;
  const int64_t of_planes = 2 * (kernels::MostCompressedBytes(1) - 1);  // a tile is one segment
  return 2 * scales + tiles * (of_planes + 1) + (scales + 7) / 8;
}

int64_t CompressScales(const ExecContext& context, std::span<const std::byte> in,
                       std::span<std::byte> out) {
  THINWIRE_CHECK(in.size() % 2 == 0 && std::ssize(out) >= MostScaleBytes(std::ssize(in) / 2),
                 out.size(), " bytes for ", in.size() / 2, " scales");
  const std::byte* const begin = out.data();
  Planes planes;
  const auto add = [&](std::span<const std::byte> plane) {
    out = out.subspan(
        static_cast<size_t>(kernels::Compress(context, SymbolModel::kDistances, plane, out)));
  };
  while (!in.empty()) {
    const auto tile = in.first(std::min(in.size(), 2 * kTile));
    in = in.subspan(tile.size());
    const size_t size = tile.size() / 2;
    const bool any = Split(tile, planes);
    add(std::span(planes.low).first(size));
    add(std::span(planes.high).first(size));
    out[0] = std::byte{any};
    out = out.subspan(1);
    if (!any) continue;
    std::ranges::copy(std::span(planes.signs).first(SignBytes(size)), out.begin());
    out = out.subspan(SignBytes(size));
  }
  return out.data() - begin;
}

int64_t ExpandScales(const ExecContext& context, std::span<const std::byte> in,
                     std::span<std::byte> out) {
  THINWIRE_CHECK(out.size() % 2 == 0, out.size(), " bytes");
  const size_t all = in.size();
  Planes planes;
  while (!out.empty()) {
    const auto tile = out.first(std::min(out.size(), 2 * kTile));
    out = out.subspan(tile.size());
    const size_t size = tile.size() / 2;
    if (!TakePlane(context, in, std::span(planes.low).first(size)) ||
        !TakePlane(context, in, std::span(planes.high).first(size)) ||
        !TakeSigns(in, std::span(planes.signs).first(SignBytes(size)))) {
      return -1;
    }
    Join(planes, tile);
  }
  return static_cast<int64_t>(all - in.size());
}

}  // namespace thinwire::codec
