// The Python module thinwire._infer: a translation of SharedEngine, nothing more; it needs no
// torch. Whatever computes runs without the interpreter lock.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "thinwire/base/error.h"
#include "thinwire/infer/gguf_export.h"
#include "thinwire/python/live_weights.h"
#include "thinwire/python/shared_engine.h"
#include "thinwire/text/gbnf.h"
#include "thinwire/text/json_schema.h"

namespace thinwire::python {
namespace {

namespace py = pybind11;
using NoLock = py::call_guard<py::gil_scoped_release>;
using Models = py::class_<SharedEngine, std::shared_ptr<SharedEngine>>;
using Answers = py::class_<AnswerWork, std::shared_ptr<AnswerWork>>;

// Local to this module: thinwire._native has names of its own for the same errors.
void TranslateErrors() {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const UsageError& error) {
      py::set_error(PyExc_ValueError, error.what());
    } catch (const IoError& error) {
      py::set_error(PyExc_OSError, error.what());
    }
  });
}

// Lets Python see Ctrl-C.
void Breathe() {
  const py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

template <typename T>
void RunToEnd(SharedEngine& engine, const std::vector<std::shared_ptr<T>>& works) {
  const std::vector<std::shared_ptr<Work>> all(works.begin(), works.end());
  engine.RunUntil(
      all,
      [&] {
        return std::ranges::all_of(all,
                                   [](const auto& work) { return SharedEngine::Ended(*work); });
      },
      Breathe);
}

// All at once; what they hold when all have ended.
template <typename T, typename Make, typename Fill>
std::vector<std::vector<float>> Compute(SharedEngine& engine,
                                        const std::vector<std::vector<int32_t>>& prompts,
                                        const Make& make, const Fill& fill,
                                        std::vector<float> (T::*result)() const) {
  std::vector<std::shared_ptr<T>> works;
  for (const std::vector<int32_t>& prompt : prompts) {
    works.push_back(make());
    infer::Request request;
    request.prompt = prompt;
    request.most_tokens = 1;
    fill(request, *works.back());
    engine.Enter(works.back(), std::move(request));
  }
  RunToEnd(engine, works);
  std::vector<std::vector<float>> results;
  for (const auto& work : works) results.push_back((work.get()->*result)());
  return results;
}

void DefineAnswer(py::module_& m) {
  py::class_<text::Grammar>(m, "Form", py::module_local());
  m.def("grammar", &text::ParseGbnf, NoLock());
  m.def("json_schema", &text::GrammarOfSchema, NoLock());
  Answers(m, "Answer", py::module_local())
      .def_property_readonly("text", &AnswerWork::text)
      .def_property_readonly("tokens", &AnswerWork::tokens)
      .def_property_readonly("logprobs", &AnswerWork::log_probabilities)
      .def_property_readonly("finish", &AnswerWork::finish);
}

void DefineRequests(Models& model) {
  model
      .def(
          "enter",
          [](SharedEngine& engine, std::vector<int32_t> prompt,
             const infer::SamplingOptions& sampling, std::vector<std::string> stops,
             int64_t most_tokens, int64_t guesses, const text::Grammar* form) {
            const infer::Engine& loaded = engine.engine();
            std::unique_ptr<infer::GrammarConstraint> constraint;
            if (form != nullptr) {
              constraint = std::make_unique<infer::GrammarConstraint>(*form, loaded.token_trie(),
                                                                      loaded.spec().vocabulary);
            }
            auto answer = std::make_shared<AnswerWork>(loaded.tokenizer().vocabulary(),
                                                       std::move(stops), std::move(constraint));
            engine.Enter(answer, {.prompt = std::move(prompt),
                                  .sampling = sampling,
                                  .most_tokens = most_tokens,
                                  .guesses = guesses,
                                  .constraint = answer->constraint()});
            return answer;
          },
          py::arg("prompt"), py::arg("sampling"), py::arg("stops"), py::arg("max_tokens"),
          py::arg("guesses"), py::arg("form"), NoLock())
      .def("run", &RunToEnd<AnswerWork>, NoLock())
      // The next piece of text, or nothing at its end.
      .def(
          "next_piece",
          [](SharedEngine& engine, const std::shared_ptr<AnswerWork>& answer) {
            std::optional<std::string> piece;
            engine.RunUntil(
                std::vector<std::shared_ptr<Work>>{answer},
                [&] {
                  if (answer->has_text()) piece = answer->TakeText();
                  return piece || SharedEngine::Ended(*answer);
                },
                Breathe);
            return piece;
          },
          NoLock())
      .def(
          "cancel", [](SharedEngine& engine, AnswerWork& answer) { engine.Cancel(answer); },
          NoLock())
      .def(
          "embed",
          [](SharedEngine& engine, const std::vector<std::vector<int32_t>>& prompts) {
            const int64_t hidden = engine.engine().spec().hidden;
            return Compute<EmbeddingWork>(
                engine, prompts, [&] { return std::make_shared<EmbeddingWork>(hidden); },
                [](infer::Request& request, EmbeddingWork& work) { request.hidden = &work; },
                &EmbeddingWork::Vector);
          },
          NoLock())
      .def(
          "score",
          [](SharedEngine& engine, const std::vector<std::vector<int32_t>>& prompts) {
            return Compute<ScoreWork>(
                engine, prompts, [] { return std::make_shared<ScoreWork>(); },
                [](infer::Request& request, ScoreWork& work) { request.scores = &work; },
                &ScoreWork::Scores);
          },
          NoLock());
}

void DefineTexts(Models& model) {
  model
      .def(
          "encode_chat",
          [](SharedEngine& engine,
             const std::vector<std::pair<std::string, std::string>>& messages) {
            std::vector<infer::ChatMessage> chat;
            for (const auto& [role, content] : messages) chat.push_back({role, content});
            return engine.EncodeChat(chat);
          },
          NoLock())
      .def("tokenize", &SharedEngine::Tokenize, NoLock())
      .def(
          "detokenize",
          [](const SharedEngine& engine, const std::vector<int32_t>& tokens, bool skip_special) {
            return engine.Detokenize(tokens, skip_special);
          },
          NoLock());
}

// A flat array of Python's, which must not change meanwhile.
class Floats {
 public:
  explicit Floats(const py::buffer& buffer) : info_(buffer.request()) {
    if (info_.format != py::format_descriptor<float>::format() || info_.ndim != 1 ||
        info_.strides[0] != sizeof(float)) {
      throw UsageError("expected a flat array of fp32");
    }
  }
  std::span<const float> values() const {
    return {static_cast<const float*>(info_.ptr), static_cast<size_t>(info_.size)};
  }

 private:
  const py::buffer_info info_;
};

void DefineLiveWeights(py::module_& m) {
  py::class_<LiveWeights>(m, "LiveWeights", py::module_local())
      .def(py::init([](const infer::DescribedModel& source, const infer::ConvertOptions& options,
                       const infer::EngineOptions& limits) {
             return std::make_unique<LiveWeights>(
                 std::make_shared<infer::LiveModel>(io::RealFileSystem(), source, options, limits));
           }),
           NoLock())
      .def_property_readonly("model", &LiveWeights::shared)
      .def("wants", [](const LiveWeights& live,
                       const std::string& name) { return live.model().Wants(name); })
      .def("begin", &LiveWeights::Begin, NoLock())
      .def("set",
           [](LiveWeights& live, const std::string& name, const py::buffer& values) {
             const Floats floats(values);
             const py::gil_scoped_release no_lock;
             live.Set(name, floats.values());
           })
      .def("end", &LiveWeights::End, NoLock());
}

void DefineExport(py::module_& m) {
  using infer::GgufExport;
  py::class_<GgufExport>(m, "Export", py::module_local())
      .def(py::init([](const std::string& path, const infer::DescribedModel& source,
                       const infer::ConvertOptions& options) {
             return std::make_unique<GgufExport>(io::RealFileSystem(), path, source, options);
           }),
           NoLock())
      .def_property_readonly("notes", [](const GgufExport& file) { return file.plan().notes; })
      .def("wants", &GgufExport::Wants)
      .def("set",
           [](GgufExport& file, const std::string& name, const py::buffer& values) {
             const Floats floats(values);
             const py::gil_scoped_release no_lock;
             file.Append(name, std::as_bytes(floats.values()));
           })
      .def(
          "end", [](GgufExport& file) { file.Finish(); }, NoLock());
}

void DefineSources(py::module_& m) {
  using infer::ConvertOptions;
  using infer::DescribedModel;
  using infer::EngineOptions;
  py::class_<DescribedModel>(m, "Source", py::module_local())
      .def(py::init([](std::string name, std::string config, std::string directory,
                       const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors) {
             infer::ModelDescription description{.name = std::move(name),
                                                 .config = std::move(config),
                                                 .directory = std::move(directory),
                                                 .tensors = {}};
             for (const auto& [tensor, shape] : tensors) {
               description.tensors.push_back({tensor, shape});
             }
             return std::make_unique<DescribedModel>(io::RealFileSystem(), std::move(description));
           }),
           py::arg("name"), py::arg("config"), py::arg("directory"), py::arg("tensors"));
  py::class_<ConvertOptions>(m, "Conversion", py::module_local())
      .def(py::init([](std::string type, std::string tokenizer) {
             return ConvertOptions{.type = std::move(type), .tokenizer = std::move(tokenizer)};
           }),
           py::arg("type"), py::arg("tokenizer"));
  py::class_<EngineOptions>(m, "Limits", py::module_local())
      .def(py::init([](int threads, int64_t context, int64_t sequences, int64_t batch,
                       const std::string& kv_type, std::string draft) {
             return EngineOptions{.threads = threads,
                                  .context = context,
                                  .sequences = sequences,
                                  .kv_type = kernels::KvTypeNamed(kv_type),
                                  .batch = batch,
                                  .draft = std::move(draft)};
           }),
           py::arg("threads"), py::arg("context"), py::arg("sequences"), py::arg("batch"),
           py::arg("kv_type"), py::arg("draft"));
}

void DefineModel(py::module_& m) {
  Models model(m, "Model", py::module_local());
  model
      .def(py::init([](const std::string& path, const infer::EngineOptions& limits) {
             return std::make_shared<SharedEngine>(std::make_shared<infer::Engine>(path, limits));
           }),
           NoLock())
      .def_property_readonly(
          "architecture",
          [](const SharedEngine& engine) { return engine.engine().spec().architecture; })
      .def_property_readonly(
          "vocabulary",
          [](const SharedEngine& engine) { return engine.engine().spec().vocabulary; })
      .def_property_readonly(
          "hidden", [](const SharedEngine& engine) { return engine.engine().spec().hidden; })
      .def_property_readonly("context",
                             [](const SharedEngine& engine) { return engine.engine().context(); })
      .def_property_readonly("threads",
                             [](const SharedEngine& engine) { return engine.engine().threads(); })
      .def_property_readonly(
          "weight_bytes", [](const SharedEngine& engine) { return engine.engine().weight_bytes(); })
      .def_property_readonly("planned_bytes", [](const SharedEngine& engine) {
        return engine.engine().planned_bytes();
      });
  DefineRequests(model);
  DefineTexts(model);
}

}  // namespace
}  // namespace thinwire::python

PYBIND11_MODULE(_infer, m) {
  namespace py = pybind11;
  using thinwire::infer::SamplingOptions;
  m.doc() = "thinwire's inference engine; use it through thinwire.infer";
  thinwire::python::TranslateErrors();
  py::class_<SamplingOptions>(m, "Sampling", py::module_local())
      .def(py::init<>())
      .def_readwrite("temperature", &SamplingOptions::temperature)
      .def_readwrite("top_k", &SamplingOptions::top_k)
      .def_readwrite("top_p", &SamplingOptions::top_p)
      .def_readwrite("min_p", &SamplingOptions::min_p)
      .def_readwrite("repetition_penalty", &SamplingOptions::repetition_penalty)
      .def_readwrite("repetition_window", &SamplingOptions::repetition_window)
      .def_readwrite("seed", &SamplingOptions::seed)
      .def_readwrite("logit_bias", &SamplingOptions::logit_bias);
  thinwire::python::DefineAnswer(m);
  thinwire::python::DefineSources(m);
  thinwire::python::DefineModel(m);
  thinwire::python::DefineLiveWeights(m);
  thinwire::python::DefineExport(m);
}
