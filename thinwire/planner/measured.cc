#include "thinwire/planner/measured.h"

#include <cmath>

#include "thinwire/base/error.h"

namespace thinwire::planner {
namespace {

using Json = nlohmann::ordered_json;

// Seconds and rates beyond these make a step without an end.
constexpr double kMost = 1e9, kLeast = 1e-6;

// JSON has no infinity: null is a link without a limit, and a rank with as many cores as it wants.
Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json ToJson(const Link& link) {
  return {{"bytes_per_s", NumberOrNull(link.bytes_per_s)},
          {"latency_s", link.latency_s},
          {"core_s_per_byte", link.core_s_per_byte}};
}

class Reader {
 public:
  Reader(const Json& json, std::string path, std::string_view source)
      : json_(json), path_(std::move(path)), source_(source) {
    if (!json_.is_object()) Refuse("");
  }

  Reader At(const std::string& key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) Refuse(key);
    return {*found, path_ + key + ".", source_};
  }
  double Number(const std::string& key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) Refuse(key);
    if (found->is_null()) return std::numeric_limits<double>::infinity();
    if (!found->is_number() || !(found->get<double>() >= 0)) Refuse(key);
    return found->get<double>();
  }
  double Finite(const std::string& key) const {
    const double value = Number(key);
    if (value > kMost) Refuse(key);
    return value;
  }
  double Positive(const std::string& key) const {
    const double value = Number(key);
    if (value < kLeast) Refuse(key);
    return value;
  }
  const Json& json() const { return json_; }

 private:
  [[noreturn]] void Refuse(const std::string& key) const {
    throw UsageError(StrCat(source_, ": ", path_, key,
                            " is missing or makes no sense; give the planner.json of a run with "
                            "parallel.recipe auto"));
  }

  const Json& json_;
  std::string path_;
  std::string_view source_;
};

Link LinkOf(const Reader& reader) {
  return {.bytes_per_s = reader.Positive("bytes_per_s"),
          .latency_s = reader.Finite("latency_s"),
          .core_s_per_byte = reader.Finite("core_s_per_byte")};
}

CodecSpeed SpeedOf(const Reader& reader) {
  return {reader.Finite("encode_s"), reader.Finite("decode_s"), reader.Finite("sum_s")};
}

}  // namespace

nlohmann::ordered_json ToJson(const Machine& machine) {
  const auto speed = [](const CodecSpeed& each) {
    return Json{{"encode_s", each.encode_s}, {"decode_s", each.decode_s}, {"sum_s", each.sum_s}};
  };
  Json codecs = Json::object();
  for (const auto& [name, each] : machine.codecs) codecs[name] = speed(each);
  return {{"slow", ToJson(machine.slow)},
          {"fast", ToJson(machine.fast)},
          {"idle_agreement_s", machine.idle_agreement_s},
          {"busy_agreement_s", machine.busy_agreement_s},
          {"cores_per_rank", NumberOrNull(machine.cores_per_rank)},
          {"compute_threads", machine.compute_threads},
          {"copy_s_per_byte", machine.copy_s_per_byte},
          {"rotate_s", machine.rotate_s},
          {"difference_s", machine.difference_s},
          {"norm_s", machine.norm_s},
          {"optimizer_s", machine.optimizer_s},
          {"codecs", codecs},
          {"other", speed(machine.other)}};
}

nlohmann::ordered_json ToJson(const Candidate& each, double parameters) {
  return {{"recipe", each.recipe},
          {"step_s", each.step.seconds},
          {"exposed_s", each.step.exposed_s},
          {"compute_s", each.step.compute_s},
          {"optimizer_s", each.step.optimizer_s},
          {"slow_link_s", each.step.slow_link_s},
          {"slow_bytes_per_host", each.bytes_per_param * parameters},
          {"bytes_per_param", each.bytes_per_param},
          {"formula_bytes_per_param", each.formula_bytes_per_param},
          {"memory_bytes_per_rank", each.memory_bytes},
          {"expected_gap_percent", each.gap_known ? Json(each.gap_percent) : Json(nullptr)},
          {"excluded", each.excluded}};
}

Measured ReadMeasured(std::string_view text, std::string_view source) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Reader whole(json, "", source);
  const Reader reader = whole.At("machine");
  Measured measured{.machine = {}, .flops = whole.Positive("flops")};
  Machine& machine = measured.machine;
  machine.slow = LinkOf(reader.At("slow"));
  machine.fast = LinkOf(reader.At("fast"));
  machine.idle_agreement_s = reader.Finite("idle_agreement_s");
  machine.busy_agreement_s = reader.Finite("busy_agreement_s");
  machine.cores_per_rank = reader.Positive("cores_per_rank");
  machine.compute_threads = reader.Finite("compute_threads");
  machine.copy_s_per_byte = reader.Finite("copy_s_per_byte");
  machine.rotate_s = reader.Finite("rotate_s");
  machine.difference_s = reader.Finite("difference_s");
  machine.norm_s = reader.Finite("norm_s");
  machine.optimizer_s = reader.Finite("optimizer_s");
  machine.other = SpeedOf(reader.At("other"));
  const Reader codecs = reader.At("codecs");
  for (const auto& [name, unused] : codecs.json().items()) {
    machine.codecs[name] = SpeedOf(codecs.At(name));
  }
  return measured;
}

}  // namespace thinwire::planner
