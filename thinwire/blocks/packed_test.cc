#include "thinwire/blocks/packed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/blocks/product_testing.h"

namespace thinwire::blocks {
namespace {

TEST(Packed, GivesBackEveryRowOfEveryType) {
  for (const WeightType type : AllWeightTypes()) {
    for (const int64_t rows : {1, 15, 16, 17, 48}) {
      const int64_t columns = BlockElements(type) == 256 ? 768 : 96;
      const TestMatrix matrix(type, rows, columns, 3);
      const int64_t row_bytes = WeightBytes(type, columns, "test");
      ASSERT_EQ(matrix.memory.size(), (rows + 15) / 16 * 16 * row_bytes);
      std::vector<std::byte> row(static_cast<size_t>(row_bytes));
      std::vector<float> values(static_cast<size_t>(columns));
      for (int64_t r = 0; r < rows; ++r) {
        matrix.packed.UnpackRow(r, row);
        const auto file = matrix.file.begin() + r * row_bytes;
        ASSERT_TRUE(std::equal(row.begin(), row.end(), file)) << NameOf(type) << " row " << r;
        matrix.packed.DecodeRow({}, r, values);
        ASSERT_EQ(std::memcmp(values.data(), matrix.values.data() + r * columns,
                              values.size() * sizeof(float)),
                  0)
            << NameOf(type) << " row " << r;
      }
    }
  }
}

TEST(Packed, PartsOfRowsGiveTheSameBytesAsAllAtOnce) {
  for (const WeightType type : {WeightType::kQ4_1, WeightType::kQ6_K}) {
    const TestMatrix all(type, 40, 768, 5);
    const AlignedBuffer memory(all.memory.size());
    const PackedMatrix parts(type, 40, 768, memory.bytes());
    const size_t cut = 16 * static_cast<size_t>(parts.row_bytes());
    parts.Pack(16, std::span(all.file).subspan(cut));
    parts.Pack(0, std::span(all.file).first(cut));
    EXPECT_TRUE(std::ranges::equal(memory.bytes(), all.memory.bytes()));
  }
}

TEST(Packed, RefusesWhatDoesNotFit) {
  EXPECT_THROW(PackedMatrix::Bytes(WeightType::kQ4_K, 16, 576, "w"), UsageError);
  EXPECT_THROW(PackedMatrix::Bytes(WeightType::kF32, 16, 33, "w"), UsageError);
  EXPECT_THROW(PackedMatrix::Bytes(WeightType::kQ8_0, int64_t{1} << 40, int64_t{1} << 40, "w"),
               UsageError);
  EXPECT_THROW(PackedMatrix::Bytes(WeightType::kQ8_0, -1, 32, "w"), UsageError);
  EXPECT_THROW(PackedMatrix::Bytes(WeightType::kQ8_0, INT64_MAX, 32, "w"), UsageError);
  const AlignedBuffer memory(64);
  EXPECT_THROW(PackedMatrix(WeightType::kQ8_0, 16, 32, memory.bytes()), InternalError);
}

}  // namespace
}  // namespace thinwire::blocks
