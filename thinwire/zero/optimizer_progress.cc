#include "thinwire/zero/optimizer_progress.h"

#include "thinwire/base/error.h"

namespace thinwire::zero {

nlohmann::json ToJson(const OptimizerProgress& progress) {
  return {{"steps", progress.steps},
          {"loss_scale", progress.loss_scale.scale},
          {"good_steps", progress.loss_scale.good_steps},
          {"bad_steps", progress.loss_scale.bad_steps}};
}

OptimizerProgress ProgressOf(const nlohmann::json& saved, std::string_view source,
                             std::string_view advice) {
  const auto value = [&](const char* key, auto makes_sense) {
    const nlohmann::json found =
        saved.is_object() ? saved.value(key, nlohmann::json()) : nlohmann::json();
    if (makes_sense(found)) return found;
    throw UsageError(StrCat(source, ": the manifest's optimizer.", key,
                            " is missing or makes no sense; ", advice));
  };
  const auto count = [&](const char* key) {
    return value(key,
                 [](const nlohmann::json& found) {
                   return found.is_number_integer() && found.get<int64_t>() >= 0;
                 })
        .get<int64_t>();
  };
  const auto is_scale = [](const nlohmann::json& found) {
    return found.is_number() && found.get<double>() > 0 &&
           found.get<double>() <= optim::LossScaler::kLargest;
  };
  return {.steps = count("steps"),
          .loss_scale = {.scale = value("loss_scale", is_scale).get<double>(),
                         .good_steps = count("good_steps"),
                         .bad_steps = count("bad_steps")}};
}

}  // namespace thinwire::zero
