#include "thinwire/kernels/rotate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "thinwire/base/random.h"
#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/rotate_isa.h"

namespace thinwire::kernels {
namespace {

// Ternary codes of five blocks share bytes.
constexpr int64_t kMostInTile = 5 * kLargestBlock;
// What waits for the rest of its block or segment, beside a tile.
constexpr int64_t kMostHeld = std::max(kLargestBlock, kLargestWidth);
using Tile = std::array<float, kMostInTile + kMostHeld>;

Signs SignsOf(const Rotation& rotation) {
  const CounterRandom random(rotation.seed);
  Signs signs;
  for (uint64_t i = 0; i < kLargestWidth; ++i) {
    signs.values[i] = (random.Bits(i / 64) >> (i % 64)) % 2 == 0 ? 1.0f : -1.0f;
  }
  return signs;
}

void Check(const Rotation& rotation, const Rows& rows) {
  THINWIRE_CHECK(rotation.width == kBlockUnit || rotation.width == kLargestWidth, "a rotation of ",
                 rotation.width);
  THINWIRE_CHECK(rows.first > 0 && rows.first <= rows.length, "rows of ", rows.length,
                 ", the first of ", rows.first);
}

// What remains of the rows from element `at` on.
Rows From(const Rows& rows, int64_t at) {
  if (at < rows.first) return {rows.length, rows.first - at};
  return {rows.length, rows.length - (at - rows.first) % rows.length};
}

// Of `held` elements from the start of a segment on, those in segments that end among them.
// `is_end`: there are no more.
int64_t InWholeSegments(const Rows& rows, int64_t width, int64_t held, bool is_end) {
  if (is_end) return held;
  if (held < rows.first) return held / width * width;
  const int64_t begun = (held - rows.first) % rows.length;  // of the last row
  return held - begun % width;
}

// Whole blocks, few enough that the next ones can be on their way into the cache meanwhile.
int64_t TileSize(const BlockFormat& format) {
  constexpr int64_t kFew = 1024;
  return std::max(format.Unit(), kFew / format.Unit() * format.Unit());
}

void Prefetch(ConstArray in) {
  constexpr int64_t kLine = 64;
  for (int64_t i = 0; i < in.bytes(); i += kLine) __builtin_prefetch(in.data + i);
}

void Quantized(const ExecContext& context, const BlockFormat& format, const ScaleRule& rule,
               std::span<const float> x, int64_t at, MutableBlocks out) {
  QuantizeBy(context, format, rule, x,
             {out.codes + format.CodeBytes(at), out.scales + 2 * format.Blocks(at)});
}

}  // namespace

void Rotate(const ExecContext& context, const Rotation& rotation, const Rows& rows, ConstArray in,
            std::span<float> out) {
  Check(rotation, rows);
  THINWIRE_CHECK(std::cmp_equal(out.size(), in.size), out.size(), " elements for ", in.size);
  THINWIRE_PICK(context.isa, RotateForth)
  (SignsOf(rotation), rotation.width, rows, in, std::as_writable_bytes(out).data());
}

void RotateBack(const ExecContext& context, const Rotation& rotation, const Rows& rows,
                std::span<const float> in, std::span<float> out) {
  Check(rotation, rows);
  THINWIRE_CHECK(out.size() == in.size(), out.size(), " elements for ", in.size());
  THINWIRE_PICK(context.isa, RotateBack)
  (SignsOf(rotation), rotation.width, rows, in, std::as_writable_bytes(out).data());
}

void QuantizeBy(const ExecContext& context, const BlockFormat& format, const ScaleRule& rule,
                ConstArray in, MutableBlocks out) {
  if (const Clip* clip = std::get_if<Clip>(&rule)) {
    QuantizeClipped(context, format, *clip, in, out);
  } else {
    Quantize(context, format, std::get<ScaleChoice>(rule), in, out);
  }
}

void RotateQuantize(const ExecContext& context, const Rotation& rotation, const Rows& rows,
                    const BlockFormat& format, const ScaleRule& rule, ConstArray in,
                    MutableBlocks out) {
  Check(rotation, rows);
  const Signs signs = SignsOf(rotation);
  const int64_t tile = TileSize(format);
  Tile buffer;
  int64_t held = 0;  // rotated, of a tile that begins at element done
  for (int64_t at = 0, done = 0; at < in.size;) {
    const Rows rest = From(rows, at);
    const int64_t room = std::min(in.size - at, tile - held + kLargestWidth);
    const int64_t size = InWholeSegments(rest, rotation.width, room, room == in.size - at);
    THINWIRE_PICK(context.isa, RotateForth)
    (signs, rotation.width, rest, in.Sub(at, size),
     reinterpret_cast<std::byte*>(buffer.data() + held));
    at += size;
    held += size;
    if (held < tile && at < in.size) continue;
    Prefetch(in.Sub(at, std::min(tile, in.size - at)));
    const int64_t ready = at < in.size ? tile : held;
    for (int64_t i = 0; i < ready; i += tile) {
      Quantized(context, format, rule,
                {buffer.data() + i, static_cast<size_t>(std::min(tile, ready - i))}, done + i, out);
    }
    done += ready;
    held -= ready;
    std::copy_n(buffer.data() + ready, held, buffer.data());
  }
}

void DequantizeRotateBack(const ExecContext& context, const Rotation& rotation, const Rows& rows,
                          const BlockFormat& format, ConstBlocks in, Array out) {
  Check(rotation, rows);
  const Signs signs = SignsOf(rotation);
  const int64_t tile = TileSize(format);
  Tile buffer;
  int64_t held = 0;  // decoded, from element at on
  for (int64_t at = 0, done = 0; at < out.size;) {
    const int64_t decoded = std::min(tile, out.size - done);
    Dequantize(context, format,
               {in.codes + format.CodeBytes(done), in.scales + 2 * format.Blocks(done)},
               std::span<float>(buffer.data() + held, static_cast<size_t>(decoded)));
    done += decoded;
    held += decoded;
    const Rows rest = From(rows, at);
    const int64_t size = InWholeSegments(rest, rotation.width, held, done == out.size);
    const std::span<float> whole(buffer.data(), static_cast<size_t>(size));
    const Array to = out.Sub(at, size);
    const bool is_fp32 = out.dtype == DType::kF32;
    THINWIRE_PICK(context.isa, RotateBack)
    (signs, rotation.width, rest, std::span<const float>(whole),
     is_fp32 ? to.data : std::as_writable_bytes(whole).data());
    if (!is_fp32) Convert(context, std::span<const float>(whole), to);
    at += size;
    held -= size;
    std::copy_n(buffer.data() + size, held, buffer.data());
  }
}

}  // namespace thinwire::kernels
