#include "thinwire/kernels/entropy_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "thinwire/base/crc32c.h"

namespace thinwire::kernels {
namespace {

constexpr std::array<SymbolModel, kSymbolModels> kModels{SymbolModel::kInt8, SymbolModel::kInt4,
                                                         SymbolModel::kInt3, SymbolModel::kTernary,
                                                         SymbolModel::kDistances};

bool HasSymbol(SymbolModel model, int symbol) {
  if (model == SymbolModel::kInt3) return symbol < 64;
  if (model != SymbolModel::kTernary) return true;
  for (int number = 0; number < 243; ++number) {
    if (number + (55 * number + 1003) / 1024 == symbol) return true;
  }
  return false;
}

TEST(EntropyTables, AreDistributionsOverTheBytesThatOccur) {
  for (const SymbolModel model : kModels) {
    ASSERT_GT(TablesOf(model).size(), 0u);
    ASSERT_LE(TablesOf(model).size(), 255u);
    for (const EntropyTable& table : TablesOf(model)) {
      EXPECT_EQ(std::accumulate(table.frequencies.begin(), table.frequencies.end(), 0), 4096);
      uint32_t before = 0;
      for (int s = 0; s < kSymbols; ++s) {
        const size_t i = static_cast<size_t>(s);
        const uint32_t frequency = table.frequencies[i];
        ASSERT_EQ(frequency > 0, HasSymbol(model, s)) << s;
        ASSERT_EQ(table.encoder[i], frequency | before << 16);
        before += frequency;
        if (frequency == 0) {
          ASSERT_EQ(table.costs[i], 0xffff);
        } else {
          ASSERT_NEAR(table.costs[i], 256 * std::log2(4096.0 / frequency), 1.01) << frequency;
        }
      }
    }
  }
}

TEST(EntropyTables, DecodersInvertTheFrequencies) {
  DecoderTable decoder;
  for (const SymbolModel model : kModels) {
    const EntropyTable& table = TablesOf(model).back();
    MakeDecoder(table, decoder);
    for (uint32_t slot = 0; slot < decoder.size(); ++slot) {
      const uint32_t symbol = decoder[slot] & 255, before = table.encoder[symbol] >> 16;
      ASSERT_EQ(decoder[slot] >> 8 & 0xfff, table.frequencies[symbol]);
      ASSERT_EQ(before + (decoder[slot] >> 20), slot);
    }
  }
}

// A change is one of the wire format: it needs another version in comm/piece.h.
TEST(EntropyTables, GoldenChecksums) {
  const std::array<uint32_t, kSymbolModels> wanted{2976907156, 923973263, 3559922212, 319563807,
                                                   937530164};
  const std::array<size_t, kSymbolModels> counts{99, 81, 63, 54, 153};
  for (size_t m = 0; m < kModels.size(); ++m) {
    uint32_t crc = 0;
    for (const EntropyTable& table : TablesOf(kModels[m])) {
      crc = Crc32c(std::as_bytes(std::span(table.frequencies)), crc);
    }
    EXPECT_EQ(crc, wanted[m]) << "model " << m;
    EXPECT_EQ(TablesOf(kModels[m]).size(), counts[m]) << "model " << m;
  }
}

}  // namespace
}  // namespace thinwire::kernels
