#include "thinwire/zero/predicted_traffic.h"

#include <algorithm>

#include "thinwire/zero/program.h"

namespace thinwire::zero {

Traffic PredictTraffic(const Plan& plan, int passes) {
  std::vector<bool> weights_in_backward;
  for (const UnitLayout& unit : plan.units) {
    weights_in_backward.push_back(unit.spec.weights_in_backward);
  }
  Traffic traffic;
  const auto add = [&](int unit, Hop hop, int times) {
    const Routes& routes = plan.routes[static_cast<size_t>(unit)];
    traffic.bytes[Index(hop)] += times * routes.sent_bytes(hop);
    traffic.messages[Index(hop)] += times * routes.sent_messages(hop);
    traffic.exchanges[Index(hop)] +=
        times * std::ranges::count_if(routes.of(hop), [](const comm::ExchangeShape& exchange) {
          return exchange.members() > 1;
        });
  };
  if (!plan.resident()) {
    const Program program = CompileProgram(TypicalPass(weights_in_backward), plan.unit_buffers);
    for (const GatherStep& gather : program.gathers) {
      add(gather.unit, Hop::kFastGather, passes);
      if (!plan.pushes()) add(gather.unit, Hop::kSlowGather, passes);
    }
  }
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    if (!plan.units[static_cast<size_t>(u)].spec.trainable) continue;
    add(u, Hop::kFastReduce, plan.options.stage == 1 ? 1 : passes);
    add(u, Hop::kSlowReduce, 1);
    if (plan.pushes()) add(u, Hop::kSlowGather, 1);
    if (plan.resident()) add(u, Hop::kFastGather, 1);
  }
  return traffic;
}

}  // namespace thinwire::zero
