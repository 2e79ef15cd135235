#include "thinwire/kernels/entropy.h"

#include <algorithm>
#include <cstring>

#include "thinwire/base/error.h"
#include "thinwire/kernels/entropy_isa.h"

namespace thinwire::kernels {
namespace {

constexpr size_t kMostSymbols = kSegmentBytes / 3 * 4;  // of a segment, in int3
constexpr int64_t kEntryBytes = 4;
constexpr uint32_t kSizeMask = 0xffffff;
static_assert(kSegmentBytes <= kSizeMask && kMostSymbols * 0xffff <= 0xffffffff);

struct Symbols {
  std::array<uint8_t, kMostSymbols> six_bits;  // room
  const uint8_t* data = nullptr;
  int64_t size = 0;
};

int64_t SymbolCount(SymbolModel model, int64_t bytes) {
  return model == SymbolModel::kInt3 ? (8 * bytes + 5) / 6 : bytes;
}

uint32_t ByteAt(std::span<const std::byte> bytes, size_t i) {
  return i < bytes.size() ? std::to_integer<uint32_t>(bytes[i]) : 0;
}

void ReadSymbols(SymbolModel model, std::span<const std::byte> in, Symbols& symbols) {
  symbols.size = SymbolCount(model, std::ssize(in));
  symbols.data = reinterpret_cast<const uint8_t*>(in.data());
  if (model != SymbolModel::kInt3) return;
  symbols.data = symbols.six_bits.data();
  uint8_t* out = symbols.six_bits.data();
  for (size_t i = 0; i < in.size(); i += 3, out += 4) {
    const uint32_t three = ByteAt(in, i) | ByteAt(in, i + 1) << 8 | ByteAt(in, i + 2) << 16;
    for (size_t k = 0; k < 4; ++k) out[k] = static_cast<uint8_t>(three >> 6 * k & 63);
  }
}

// `symbols` has room for a multiple of four.
void PackSixBits(uint8_t* symbols, int64_t size, std::span<std::byte> out) {
  std::fill_n(symbols + size, (4 - size % 4) % 4, uint8_t{0});
  for (size_t i = 0; i < out.size(); i += 3, symbols += 4) {
    const int three = symbols[0] | symbols[1] << 6 | symbols[2] << 12 | symbols[3] << 18;
    for (size_t k = 0; k < std::min<size_t>(3, out.size() - i); ++k) {
      out[i + k] = static_cast<std::byte>(three >> (8 * k));
    }
  }
}

using Histogram = std::array<uint32_t, kSymbols>;

// Four counts of each symbol, because one that comes twice in a row would wait for itself.
Histogram HistogramOf(const Symbols& symbols) {
  std::array<Histogram, 4> counts{};
  int64_t i = 0;
  for (; i + 8 <= symbols.size; i += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, symbols.data + i, sizeof(eight));
    for (size_t k = 0; k < 8; ++k) ++counts[k % 4][eight >> (8 * k) & 255];
  }
  for (; i < symbols.size; ++i) ++counts[0][symbols.data[i]];
  for (size_t s = 0; s < kSymbols; ++s) {
    counts[0][s] += counts[1][s] + counts[2][s] + counts[3][s];
  }
  return counts[0];
}

// The index of the best table, or -1 where there is none that gains anything.
int64_t BestTable(Isa isa, std::span<const EntropyTable> tables, const Symbols& symbols,
                  int64_t bytes) {
  const Histogram histogram = HistogramOf(symbols);
  for (size_t s = 0; s < kSymbols; ++s) {
    if (histogram[s] > 0 && tables[0].frequencies[s] == 0) return -1;
  }
  const auto cost_of = THINWIRE_PICK(isa, CostOfSymbols);
  int64_t best = -1, least = 256 * 8 * (bytes - kStateBytes);
  for (size_t t = 0; t < tables.size(); ++t) {
    const int64_t cost = cost_of(histogram.data(), tables[t].costs.data());
    if (cost >= least) continue;
    least = cost;
    best = static_cast<int64_t>(t);
  }
  return best;
}

void WriteEntry(std::byte* out, int64_t size, int64_t table) {
  const uint32_t entry = static_cast<uint32_t>(size) | static_cast<uint32_t>(table + 1) << 24;
  std::memcpy(out, &entry, sizeof(entry));
}

// Decoder tables are made as they are met: mostly it is the same one all the time.
struct Decoder {
  DecoderTable slots;
  int64_t table = -1;

  void Become(std::span<const EntropyTable> tables, int64_t wanted) {
    if (wanted == table) return;
    MakeDecoder(tables[static_cast<size_t>(wanted)], slots);
    table = wanted;
  }
};

bool ExpandSegment(Isa isa, SymbolModel model, const Decoder& decoder,
                   std::span<const std::byte> in, std::span<std::byte> out) {
  const auto decode = THINWIRE_PICK(isa, DecodeSymbols);
  const uint32_t* slots = decoder.slots.data();
  const int64_t size = SymbolCount(model, std::ssize(out));
  if (model != SymbolModel::kInt3) {
    return decode(slots, in.data(), std::ssize(in), reinterpret_cast<uint8_t*>(out.data()), size);
  }
  std::array<uint8_t, kMostSymbols> symbols;
  if (!decode(slots, in.data(), std::ssize(in), symbols.data(), size)) return false;
  PackSixBits(symbols.data(), size, out);
  return true;
}

}  // namespace

int64_t Compress(const ExecContext& context, SymbolModel model, std::span<const std::byte> in,
                 std::span<std::byte> out) {
  THINWIRE_CHECK(std::ssize(out) >= MostCompressedBytes(std::ssize(in)), out.size(), " bytes");
  const std::span<const EntropyTable> tables = TablesOf(model);
  const auto encode = THINWIRE_PICK(context.isa, EncodeSymbols);
  std::byte* entry = out.data();
  std::byte* at = out.data() + MostCompressedBytes(std::ssize(in)) - std::ssize(in);
  Symbols symbols;
  for (; !in.empty(); entry += kEntryBytes) {
    const auto segment = in.first(std::min<size_t>(in.size(), kSegmentBytes));
    in = in.subspan(segment.size());
    ReadSymbols(model, segment, symbols);
    const int64_t bytes = std::ssize(segment);
    const int64_t table = BestTable(context.isa, tables, symbols, bytes);
    const int64_t size = table < 0 ? -1
                                   : encode(tables[static_cast<size_t>(table)].encoder.data(),
                                            symbols.data, symbols.size, at, bytes);
    if (size < 0) std::ranges::copy(segment, at);
    WriteEntry(entry, size < 0 ? bytes : size, size < 0 ? -1 : table);
    at += size < 0 ? bytes : size;
  }
  return at - out.data();
}

int64_t Expand(const ExecContext& context, SymbolModel model, std::span<const std::byte> in,
               std::span<std::byte> out) {
  const std::span<const EntropyTable> tables = TablesOf(model);
  const int64_t directory = MostCompressedBytes(std::ssize(out)) - std::ssize(out);
  if (std::ssize(in) < directory) return -1;
  const std::byte* entries = in.data();
  int64_t at = directory;
  Decoder decoder;
  for (; !out.empty(); entries += kEntryBytes) {
    const auto segment = out.first(std::min<size_t>(out.size(), kSegmentBytes));
    out = out.subspan(segment.size());
    uint32_t entry = 0;
    std::memcpy(&entry, entries, sizeof(entry));
    const int64_t size = entry & kSizeMask, table = (entry >> 24) - int64_t{1};
    if (size > std::ssize(in) - at || table >= std::ssize(tables)) return -1;
    const auto code = in.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
    at += size;
    if (table < 0) {
      if (code.size() != segment.size()) return -1;
      std::ranges::copy(code, segment.begin());
      continue;
    }
    decoder.Become(tables, table);
    if (!ExpandSegment(context.isa, model, decoder, code, segment)) return -1;
  }
  return at;
}

}  // namespace thinwire::kernels
