#include "thinwire/base/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "thinwire/base/context.h"
#include "thinwire/base/error.h"

namespace thinwire {
namespace {

// Sets THINWIRE_ISA and puts the user's value back at the end.
class CpuFeatures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("THINWIRE_ISA")) before_ = value;
  }
  void TearDown() override {
    if (before_) {
      setenv("THINWIRE_ISA", before_->c_str(), 1);
    } else {
      unsetenv("THINWIRE_ISA");
    }
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(CpuFeatures, ListsEachSetOnceWorstFirst) {
  const std::vector<Isa> isas = SupportedIsas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kScalar);
  EXPECT_EQ(std::adjacent_find(isas.begin(), isas.end(), std::greater_equal<>()), isas.end());
}

TEST_F(CpuFeatures, TheBestIsTheLastUnlessCapped) {
  unsetenv("THINWIRE_ISA");
  EXPECT_EQ(BestIsa(), SupportedIsas().back());
  setenv("THINWIRE_ISA", "", 1);
  EXPECT_EQ(BestIsa(), SupportedIsas().back());
  for (const Isa isa : SupportedIsas()) {
    setenv("THINWIRE_ISA", std::string(NameOf(isa)).c_str(), 1);
    EXPECT_EQ(BestIsa(), isa);
    EXPECT_EQ(ExecContext{}.isa, isa);
  }
}

TEST_F(CpuFeatures, RefusesASetThatIsNotThere) {
#if defined(__x86_64__)
  const char* missing = "neon";
#else
  const char* missing = "avx2";
#endif
  for (const char* value : {missing, "AVX2", "fast"}) {
    setenv("THINWIRE_ISA", value, 1);
    try {
      BestIsa();
      FAIL() << value;
    } catch (const UsageError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find(std::string("THINWIRE_ISA=") + value), 0u) << message;
      EXPECT_NE(message.find(NameOf(SupportedIsas().back())), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace thinwire
