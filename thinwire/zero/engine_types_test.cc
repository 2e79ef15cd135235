// Units of different types in one engine: each is gathered, reduced, sent and counted in its own.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

// bf16 where a frozen or large part would be, fp32 for the rest.
std::vector<DType> MixedTypes() {
  return {DType::kBF16, DType::kF32, DType::kBF16, DType::kF32, DType::kBF16};
}

std::vector<UnitSpec> UnitsOf(const std::vector<DType>& types) {
  std::vector<UnitSpec> units = FakeUnits();
  for (size_t u = 0; u < units.size(); ++u) units[u].compute = types[u];
  return units;
}

FakeCluster ClusterOf(const std::string& recipe, int stage) {
  FakeCluster cluster;
  cluster.options.recipe = recipe;
  cluster.options.stage = stage;
  cluster.options.compute = DType::kBF16;
  cluster.options.wire = std::nullopt;
  cluster.options.max_grad_norm = 0;  // which would let each unit's result depend on all gradients
  return cluster;
}

// The masters of every parameter after some steps, as rank 0 reads them.
std::map<std::string, std::vector<float>> Trained(FakeCluster cluster) {
  std::map<std::string, std::vector<float>> values;
  cluster.RunWell([&](FakeRank r) {
    InitializeFake(r.engine);
    for (int64_t step = 0; step < 3; ++step) {
      FakePass(r.engine, r.rank, step, 0, true);
      r.engine.Step({.lr = FakeLr(step)});
    }
    const auto& units = r.engine.plan().units;
    for (int u = 0; u < static_cast<int>(units.size()); ++u) {
      const auto& parameters = units[static_cast<size_t>(u)].spec.parameters;
      for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
        const std::vector<float> read = r.engine.ReadParameter(u, p);
        if (r.rank == 0) values[parameters[static_cast<size_t>(p)].name] = read;
      }
    }
  });
  return values;
}

// A unit comes to the bits that it comes to in a model of its type alone.
TEST(EngineTypes, UnitsAreTrainedAsInModelsOfTheirType) {
  for (const auto& [recipe, stage] :
       {std::pair("zero3", 3), {"hpz", 3}, {"zero3", 2}, {"zero++", 1}}) {
    std::map<DType, std::map<std::string, std::vector<float>>> uniform;
    for (const DType type : {DType::kBF16, DType::kF32}) {
      FakeCluster cluster = ClusterOf(recipe, stage);
      cluster.units = UnitsOf(std::vector<DType>(5, type));
      uniform[type] = Trained(cluster);
    }
    FakeCluster cluster = ClusterOf(recipe, stage);
    cluster.units = UnitsOf(MixedTypes());
    const auto mixed = Trained(cluster);
    ASSERT_NE(uniform[DType::kBF16], uniform[DType::kF32]) << recipe;
    for (const UnitSpec& unit : cluster.units) {
      for (const ParameterSpec& parameter : unit.parameters) {
        EXPECT_EQ(mixed.at(parameter.name), uniform[*unit.compute].at(parameter.name))
            << recipe << " " << stage << " " << parameter.name;
      }
    }
  }
}

TEST(EngineTypes, BytesAndMemoryAreCountedInEachUnitsType) {
  const auto plan_of = [](const std::vector<DType>& types, int stage, std::optional<DType> wire) {
    return MakePlan(UnitsOf(types), comm::Topology(2, 2, 1),
                    {.stage = stage, .wire = wire, .chunk_bytes = 4096});
  };
  const std::vector<Hop> hops = {Hop::kSlowGather, Hop::kFastGather, Hop::kFastReduce,
                                 Hop::kSlowReduce};
  for (const int stage : {1, 3}) {
    const Plan mixed = plan_of(MixedTypes(), stage, std::nullopt);
    const Plan all_bf16 = plan_of(MixedTypes(), stage, DType::kBF16);
    int64_t flats = 0, formula_bytes = 0;
    for (size_t u = 0; u < mixed.units.size(); ++u) {
      const Plan uniform = plan_of(std::vector<DType>(5, MixedTypes()[u]), stage, std::nullopt);
      for (const Hop hop : hops) {
        EXPECT_EQ(mixed.routes[u].sent_bytes(hop), uniform.routes[u].sent_bytes(hop)) << u;
        // What is asked for explicitly holds for all units.
        EXPECT_LE(all_bf16.routes[u].sent_bytes(hop), mixed.routes[u].sent_bytes(hop)) << u;
      }
      EXPECT_EQ(mixed.units[u].flat_bytes(),
                mixed.units[u].numel() * (MixedTypes()[u] == DType::kF32 ? 4 : 2));
      flats += mixed.units[u].flat_bytes();
      formula_bytes += mixed.units[u].flat_bytes();
    }
    // Each byte of a flat is gathered (twice at stage 3) and reduced over half of the hosts.
    EXPECT_NEAR(mixed.formula_bytes_per_param * static_cast<double>(mixed.parameters),
                static_cast<double>(formula_bytes) * (stage == 3 ? 1.5 : 1.0), 1e-6);
    EXPECT_GT(mixed.predicted_bytes_per_param, all_bf16.predicted_bytes_per_param * 1.2);
    const std::string text = Describe(mixed);
    EXPECT_NE(text.find("computed in bf16 and fp32"), std::string::npos) << text;
    EXPECT_NE(text.find("slow reduce   bf16 and fp32, once per step"), std::string::npos) << text;
    if (stage != 1) continue;
    for (const MemoryItem& item : mixed.memory) {
      if (item.kind != "weights of all units, bf16 and fp32") continue;
      EXPECT_NEAR(static_cast<double>(item.bytes), static_cast<double>(flats), 64 * 5);
      flats = 0;
    }
    EXPECT_EQ(flats, 0) << text;
  }
}

// A hop with a type of its own sends vectors in it, too.
TEST(EngineTypes, AHopsTypeIsThatOfVectors) {
  const std::vector<UnitSpec> units = {{"u", {{"w", {64, 64}}, {"norm", {4096}}}}};
  const auto bytes_of = [&](const std::string& recipe, Hop hop) {
    return MakePlan(units, comm::Topology(2, 2, 0), {.recipe = recipe}).routes[0].sent_bytes(hop);
  };
  const std::string wide = "fast_reduce=fp32, slow_reduce=fp32";
  for (const Hop hop : {Hop::kFastReduce, Hop::kSlowReduce}) {
    const double ratio =
        static_cast<double>(bytes_of(wide, hop)) / static_cast<double>(bytes_of("zero3", hop));
    EXPECT_NEAR(ratio, 2, 0.05);  // but for the header
  }
  EXPECT_EQ(bytes_of(wide, Hop::kSlowGather), bytes_of("zero3", Hop::kSlowGather));
}

TEST(EngineTypes, RanksAgreeOnThem) {
  FakeCluster cluster = ClusterOf("zero3", 3);
  cluster.change = [](int rank, EngineOptions&, std::vector<UnitSpec>& units) {
    if (rank == 2) units[1].compute = DType::kF32;
  };
  for (const Outcome& outcome : cluster.Run([](FakeRank) {})) {
    EXPECT_NE(outcome.error.find("unit layer0 of"), std::string::npos) << outcome.error;
    EXPECT_NE(outcome.error.find(", fp32"), std::string::npos) << outcome.error;
  }
}

// One unit in fp16 is enough: its gradients are what overflows.
TEST(EngineTypes, TheLossIsScaledWhereAUnitComputesInHalfPrecision) {
  FakeCluster cluster = ClusterOf("zero3", 3);
  cluster.units[1].compute = DType::kF16;
  cluster.options.loss_scale.initial = 4;
  cluster.RunWell([](FakeRank r) {
    r.engine.RefreshWeights(0);
    EXPECT_EQ(r.engine.loss_scale(), 4);
  });
}

}  // namespace
}  // namespace thinwire::zero
