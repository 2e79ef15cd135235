// The Python module thinwire._native: a translation of ModuleSession, nothing more. Every function
// that may wait for other ranks runs without the interpreter lock.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/headeronly/version.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "thinwire/base/cpu_features.h"
#include "thinwire/base/error.h"
#include "thinwire/torch/module_checkpoint.h"
#include "thinwire/torch/module_session.h"
#include "thinwire/torch/outside_optimizer.h"
#include "thinwire/zero/predicted_traffic.h"

namespace thinwire::adapter {
namespace {

using TensorLists = std::vector<std::vector<at::Tensor>>;
using NoLock = py::call_guard<py::gil_scoped_release>;

DType DTypeNamed(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (NameOf(dtype) == name) return dtype;
  }
  throw UsageError(StrCat("no element type ", name, ": expected fp32, bf16 or fp16"));
}

void DefineErrors(py::module_& m) {
  const auto base = py::register_exception<Error>(m, "Error", PyExc_RuntimeError);
  py::register_exception<UsageError>(m, "UsageError", base);
  py::register_exception<PeerError>(m, "PeerError", base);
  py::register_exception<IoError>(m, "IoError", base);
  py::register_exception<InternalError>(m, "InternalError", base);
}

// The step of an outside optimizer; the engine calls it without the interpreter lock. The function
// object is given up under the lock, too.
OutsideStep CallPython(py::function step) {
  const auto function =
      std::shared_ptr<py::function>(new py::function(std::move(step)), [](py::function* held) {
        const py::gil_scoped_acquire lock;
        delete held;
      });
  return [function](const std::vector<OwnedTensors>& owned) {
    const py::gil_scoped_acquire lock;
    py::list list;
    for (const OwnedTensors& each : owned) {
      list.append(py::make_tuple(each.group, each.master, each.gradient, each.states));
    }
    (*function)(list);
  };
}

void DefineGroups(py::module_& m) {
  using optim::GroupSettings;
  py::class_<GroupSettings>(m, "GroupSettings")
      .def(py::init<>())
      .def_readwrite("lr", &GroupSettings::lr)
      .def_readwrite("weight_decay", &GroupSettings::weight_decay)
      .def_readwrite("beta1", &GroupSettings::beta1)
      .def_readwrite("beta2", &GroupSettings::beta2)
      .def_readwrite("eps", &GroupSettings::eps)
      .def_readwrite("momentum", &GroupSettings::momentum)
      .def_readwrite("dampening", &GroupSettings::dampening)
      .def_readwrite("nesterov", &GroupSettings::nesterov);
}

void DefineOptions(py::module_& m) {
  using zero::EngineOptions;
  py::class_<EngineOptions>(m, "EngineOptions")
      .def(py::init<>())
      .def_readwrite("recipe", &EngineOptions::recipe)
      .def_readwrite("stage", &EngineOptions::stage)
      .def_property(
          "compute", [](const EngineOptions& o) { return std::string(NameOf(o.compute)); },
          [](EngineOptions& o, const std::string& name) { o.compute = DTypeNamed(name); })
      .def_property(
          "wire", [](const EngineOptions& o) { return o.wire ? std::string(NameOf(*o.wire)) : ""; },
          [](EngineOptions& o, const std::string& name) {
            o.wire = name.empty() ? std::nullopt : std::optional(DTypeNamed(name));
          })
      .def_readwrite("micro_batches", &EngineOptions::micro_batches)
      .def_readwrite("average_micro_batches", &EngineOptions::average_micro_batches)
      .def_readwrite("prefetch", &EngineOptions::prefetch)
      .def_readwrite("chunk_bytes", &EngineOptions::chunk_bytes)
      .def_readwrite("full_weights_every", &EngineOptions::full_weights_every)
      .def_readwrite("max_grad_norm", &EngineOptions::max_grad_norm)
      .def_readwrite("deadline", &EngineOptions::deadline)
      .def_readwrite("checksum", &EngineOptions::checksum)
      .def_readwrite("near_peers", &EngineOptions::near_peers)
      .def_readwrite("groups", &EngineOptions::groups)
      .def("set_optimizer",
           [](EngineOptions& o, const std::string& name) { o.optimizer = optim::ByName(name); })
      .def("set_outside_optimizer",
           [](EngineOptions& o, const std::string& name, std::vector<std::string> states,
              py::function step) {
             o.optimizer =
                 MakeOutsideOptimizer(name, std::move(states), CallPython(std::move(step)));
           })
      .def(
          "set_loss_scale",
          [](EngineOptions& o, double fixed, double initial, double least, int64_t window,
             int64_t hysteresis, bool each_good_step) {
            o.loss_scale = {fixed, initial, least, window, hysteresis, each_good_step};
          },
          py::arg("fixed"), py::arg("initial"), py::arg("least"), py::arg("window"),
          py::arg("hysteresis"), py::arg("each_good_step"));
}

void DefineUnits(py::module_& m) {
  using zero::ParameterSpec;
  using zero::UnitSpec;
  py::class_<ParameterSpec>(m, "ParameterSpec")
      .def(py::init([](std::string name, std::vector<int64_t> shape, int group) {
             return ParameterSpec{std::move(name), std::move(shape), group};
           }),
           py::arg("name"), py::arg("shape"), py::arg("group"));
  py::class_<UnitSpec>(m, "UnitSpec")
      .def(py::init([](std::string name, std::vector<ParameterSpec> parameters,
                       bool weights_in_backward, bool trainable, const std::string& compute) {
             return UnitSpec{.name = std::move(name),
                             .parameters = std::move(parameters),
                             .weights_in_backward = weights_in_backward,
                             .trainable = trainable,
                             .compute = DTypeNamed(compute)};
           }),
           py::arg("name"), py::arg("parameters"), py::arg("weights_in_backward"),
           py::arg("trainable"), py::arg("compute"));
}

void DefineLinks(py::module_& m) {
  py::class_<GroupLinks, py::smart_holder>(m, "GroupLinks")
      .def(py::init<>())
      .def(py::init<const std::string&, const std::string&, const c10::intrusive_ptr<c10d::Store>&,
                    std::chrono::milliseconds, bool, int>(),
           py::arg("bulk"), py::arg("control"), py::arg("store"), py::arg("deadline"),
           py::arg("shared_memory"), py::arg("ranks_per_host"), NoLock());
}

// Tensors in, the tensors that take their place out.
template <void (ModuleAdapter::*hook)(int, std::vector<at::Tensor>&)>
std::vector<at::Tensor> Hook(ModuleSession& session, int module, std::vector<at::Tensor> tensors) {
  (session.adapter().*hook)(module, tensors);
  return tensors;
}

py::dict ToDict(const zero::StepResult& result) {
  py::dict dict;
  dict["step"] = result.step;
  dict["loss"] = result.loss;
  dict["grad_norm"] = result.grad_norm;
  dict["applied"] = result.applied;
  dict["stop"] = result.stop;
  dict["notes"] = result.notes;
  return dict;
}

// Per hop, in the order of zero::Hop; a hop of one member has no codec.
py::list HopsToList(const zero::Plan& plan, const zero::Traffic& traffic) {
  const std::vector<zero::HopChoice> choices = zero::HopsOf(plan.recipe);
  py::list list;
  for (size_t h = 0; h < zero::kHops; ++h) {
    const auto hop = static_cast<zero::Hop>(h);
    const int members = IsSlow(hop) ? plan.topology.hosts() : plan.topology.ranks_per_host();
    const bool codes = choices[h].choice == "codes";  // those of the slow gather, passed on
    py::dict dict;
    dict["name"] = std::string(NameOf(hop));
    dict["codec"] = members == 1 ? std::string() : choices[codes ? 0 : h].choice;
    dict["calls"] = traffic.exchanges[h];
    dict["messages"] = traffic.messages[h];
    dict["bytes"] = traffic.bytes[h];
    dict["seconds"] = traffic.seconds[h];
    list.append(dict);
  }
  return list;
}

void DefineReports(py::class_<ModuleSession>& bound) {
  bound
      .def_property_readonly("traffic",
                             [](ModuleSession& session) {
                               return HopsToList(session.engine().plan(),
                                                 session.engine().traffic());
                             })
      .def_property_readonly(
          "control_bytes",
          [](ModuleSession& session) { return session.engine().traffic().control_bytes; })
      .def(
          "start_timeline",
          [](ModuleSession& session) {
            session.adapter().Settle();
            session.engine().StartTimeline();
          },
          NoLock())
      .def(
          "take_timeline",
          [](ModuleSession& session) {
            session.adapter().Settle();
            const zero::Timeline timeline = session.engine().TakeTimeline();
            if (timeline.ranks.empty()) return std::pair(std::string(), std::string());
            return std::pair(zero::Summarize(timeline), zero::ToChromeTrace(timeline));
          },
          NoLock())
      .def(
          "predicted_traffic",
          [](ModuleSession& session, int passes) {
            const zero::Plan& plan = session.engine().plan();
            return HopsToList(plan, zero::PredictTraffic(plan, passes));
          },
          py::arg("passes"));
}

void DefinePasses(py::class_<ModuleSession>& bound) {
  bound.def("pre_forward", &Hook<&ModuleAdapter::PreForward>, NoLock())
      .def("post_forward", &Hook<&ModuleAdapter::PostForward>, NoLock())
      .def(
          "step",
          [](ModuleSession& session, const std::vector<optim::GroupSettings>& groups, double loss) {
            zero::StepResult result;
            std::string review;
            {
              const py::gil_scoped_release no_lock;
              result = session.adapter().Step({.loss = loss, .groups = groups});
              review = session.ReviewChoice();
            }
            py::dict dict = ToDict(result);
            dict["review"] = review;
            return dict;
          },
          py::arg("groups"), py::arg("loss"))
      .def(
          "abandon", [](ModuleSession& session) { return session.adapter().Abandon(); }, NoLock())
      .def(
          "settle", [](ModuleSession& session) { session.adapter().Settle(); }, NoLock())
      .def("expect_no_backward",
           [](ModuleSession& session) { session.adapter().ExpectNoBackward(); })
      .def(
          "serve_until_all_done",
          [](ModuleSession& session) { session.adapter().ServeUntilAllDone(); }, NoLock())
      .def("end_steps_after",
           [](ModuleSession& session, int micro_batches) {
             session.adapter().EndStepsAfter(micro_batches);
           })
      .def_property_readonly("ends_step",
                             [](ModuleSession& session) { return session.adapter().ends_step(); })
      .def_property_readonly("step_is_due",
                             [](ModuleSession& session) { return session.adapter().step_is_due(); })
      .def_property_readonly("micro_batches_done", [](ModuleSession& session) {
        return session.adapter().micro_batches_done();
      });
}

void DefineCheckpoints(py::class_<ModuleSession>& bound) {
  bound
      .def(
          "save_checkpoint",
          [](ModuleSession& session, const std::string& root, int64_t step,
             const std::string& extra, bool frozen) {
            session.adapter().Settle();
            return SaveModuleCheckpoint(session.engine(), {root, step, extra, frozen});
          },
          py::arg("root"), py::arg("step"), py::arg("extra"), py::arg("frozen"), NoLock())
      .def(
          "load_checkpoint",
          [](ModuleSession& session, const std::string& root, bool masters_only, bool partial) {
            session.adapter().Settle();
            const LoadedCheckpoint loaded =
                LoadModuleCheckpoint(session.engine(), {root, masters_only, partial});
            session.adapter().RefreshWeights(loaded.progress);
            return std::tuple(loaded.path, loaded.extra, loaded.note);
          },
          py::arg("root"), py::arg("masters_only"), py::arg("partial"), NoLock());
}

// What a recipe says of each hop, in the engine's own spelling; None where the hop carries the wire
// type, which is where two wire types come to different codecs. `setting` is what it is the value
// of, for errors.
py::dict ReadRecipe(const std::string& text, const std::string& setting) {
  const auto hops = zero::HopsOf(zero::MakeRecipe(text, DType::kBF16, setting));
  const auto others = zero::HopsOf(zero::MakeRecipe(text, DType::kF16, setting));
  py::dict dict;
  for (size_t h = 0; h < hops.size(); ++h) {
    const py::str hop{std::string(hops[h].hop)};
    if (hops[h] == others[h]) {
      dict[hop] = hops[h].choice;
    } else {
      dict[hop] = py::none();
    }
  }
  return dict;
}

std::unique_ptr<ModuleSession> MakeSession(std::unique_ptr<GroupLinks> links,
                                           const zero::EngineOptions& options,
                                           std::pair<int, int> topology,
                                           const std::vector<zero::UnitSpec>& units,
                                           double loss_budget, int64_t review_steps, int64_t tokens,
                                           int micro_batches) {
  const py::gil_scoped_release no_lock;
  return std::make_unique<ModuleSession>(std::move(links),
                                         ModuleSession::Setup{.options = options,
                                                              .hosts = topology.first,
                                                              .ranks_per_host = topology.second,
                                                              .loss_budget = loss_budget,
                                                              .review_steps = review_steps,
                                                              .tokens = tokens,
                                                              .micro_batches = micro_batches},
                                         units);
}

void DefineSession(py::module_& m) {
  using Whole = ModuleSession::Whole;
  py::class_<Whole>(m, "Whole")
      .def(py::init([](int unit, int parameter, at::Tensor values) {
             return Whole{unit, parameter, std::move(values)};
           }),
           py::arg("unit"), py::arg("parameter"), py::arg("values"));
  py::class_<ModuleSession> bound(m, "Session");
  DefinePasses(bound);
  DefineReports(bound);
  DefineCheckpoints(bound);
  bound
      .def(py::init(&MakeSession), py::arg("links"), py::arg("options"), py::arg("topology"),
           py::arg("units"), py::arg("loss_budget"), py::arg("review_steps"), py::arg("tokens"),
           py::arg("micro_batches"))
      .def("fill", &ModuleSession::Fill, NoLock())
      .def("adopt", &ModuleSession::Adopt, py::arg("parameters"), py::arg("units_of_module"),
           NoLock())
      .def("read_owned", &ModuleSession::ReadOwned, NoLock())
      .def("write_owned", &ModuleSession::WriteOwned, NoLock())
      .def("lend",
           [](ModuleSession& session, const ModuleSession::Whole& whole) {
             session.adapter().Lend(whole.unit, whole.parameter, whole.values);
           })
      .def("take_back", [](ModuleSession& session, int unit,
                           int parameter) { session.adapter().TakeBack(unit, parameter); })
      .def(
          "refresh_weights", [](ModuleSession& session) { session.adapter().RefreshWeights(); },
          NoLock())
      .def(
          "catch_up",
          [](ModuleSession& session) {
            session.adapter().Settle();
            session.engine().CatchUp();
          },
          NoLock())
      .def(
          "meet",
          [](ModuleSession& session, const std::string& call) {
            session.adapter().Settle();
            session.engine().Meet(call);
          },
          NoLock())
      .def(
          "mean_over_ranks",
          [](ModuleSession& session, double value) {
            return session.engine().MeanOverRanks(value);
          },
          NoLock())
      .def_property_readonly("loss_scale",
                             [](ModuleSession& session) { return session.engine().loss_scale(); })
      .def_property_readonly("in_pass",
                             [](ModuleSession& session) { return session.adapter().in_pass(); })
      .def_property_readonly("choice", &ModuleSession::DescribeChoice)
      .def_property_readonly(
          "plan", [](ModuleSession& session) { return zero::Describe(session.engine().plan()); });
}

}  // namespace
}  // namespace thinwire::adapter

PYBIND11_MODULE(_native, m) {
  m.doc() = "thinwire's engine under a PyTorch module; use it through the package thinwire";
  m.attr("built_for_torch") = thinwire::StrCat(TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR);
  m.def("instruction_sets", [] {
    std::vector<std::string> names;
    for (const thinwire::Isa isa : thinwire::SupportedIsas()) names.emplace_back(NameOf(isa));
    return names;
  });
  m.def("read_recipe", &thinwire::adapter::ReadRecipe, py::arg("text"), py::arg("setting"));
  // By rank: what an engine there allocates, as (kind, bytes).
  m.def(
      "plan_memory",
      [](const thinwire::zero::EngineOptions& options, int hosts, int ranks_per_host,
         const std::vector<thinwire::zero::UnitSpec>& units) {
        std::vector<std::vector<std::pair<std::string, int64_t>>> ranks;
        for (int rank = 0; rank < hosts * ranks_per_host; ++rank) {
          const thinwire::comm::Topology topology(hosts, ranks_per_host, rank);
          auto& parts = ranks.emplace_back();
          for (const auto& item : thinwire::zero::MakePlan(units, topology, options).memory) {
            parts.emplace_back(item.kind, item.bytes);
          }
        }
        return ranks;
      },
      py::arg("options"), py::arg("hosts"), py::arg("ranks_per_host"), py::arg("units"));
  m.def("best_isa", [] { return std::string(NameOf(thinwire::BestIsa())); });
  thinwire::adapter::DefineErrors(m);
  thinwire::adapter::DefineGroups(m);
  thinwire::adapter::DefineOptions(m);
  thinwire::adapter::DefineUnits(m);
  thinwire::adapter::DefineLinks(m);
  thinwire::adapter::DefineSession(m);
}
