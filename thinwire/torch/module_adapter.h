// The torch adapter for a user's modules: hooks around a module's forward gather its parameters,
// autograd nodes at its outputs and inputs do so in backward and reduce its gradients, and the end
// of backward ends the pass. The hooks themselves are Python's; each calls one function of this
// class, which holds no interpreter lock while it waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "thinwire/zero/engine.h"

namespace thinwire::adapter {

class ModuleAdapter {
 public:
  // Which units a module with hooks gathers around its forward. None is fine: then its forward only
  // begins and ends passes.
  using UnitsOfModule = std::vector<std::vector<int>>;

  // Takes over `parameters` (as plan().units, each parameter once): see borrowed_parameter.h. Their
  // values must be in the engine's masters already. `engine` outlives the adapter and is driven by
  // it: nobody else calls its pass functions.
  ModuleAdapter(zero::Engine& engine, const std::vector<std::vector<at::Tensor>>& parameters,
                UnitsOfModule units_of_module);
  ~ModuleAdapter();
  ModuleAdapter(const ModuleAdapter&) = delete;
  ModuleAdapter& operator=(const ModuleAdapter&) = delete;

  // Around the forward of `module`: `tensors` are those among its inputs or outputs that require
  // grad, replaced by the ones that forward, or its caller, is to see. The outermost forward begins
  // a pass: of evaluation without grad mode, ended with that forward, or of training, ended by
  // backward. A recomputation in backward calls them again. After every PreForward, PostForward is
  // called once, also when forward threw (then without tensors).
  void PreForward(int module, std::vector<at::Tensor>& tensors);
  void PostForward(int module, std::vector<at::Tensor>& tensors);

  // Where EngineOptions::micro_batches is 0: the training pass that begins with so many before it,
  // less one, or more, is the last of its step. 1 at first.
  void EndStepsAfter(int micro_batches);
  // Whether the training pass that is under way, has ended before its step or is the next one is
  // the last of its step.
  bool ends_step() const;
  bool step_is_due() const;

  // The optimizer step after the backward of the last micro-batch.
  zero::StepResult Step(const zero::StepInput& input);

  // New values were written to the engine's masters; all ranks call it. Without progress, that and
  // the micro-batches of the step stay.
  void RefreshWeights(const zero::OptimizerProgress& progress);
  void RefreshWeights();

  // Gives up the pass that is under way, on all ranks (zero::Engine::AbandonPass), and returns
  // whether there was one. Settle does so when no backward can end it: its forward or backward
  // raised an error, or its loss is gone. All other functions settle first, so that a retry, on all
  // ranks, needs no more.
  bool Abandon();
  void Settle();
  // The outermost forward raised an error; what is left of its graph may live on in a traceback.
  void ExpectNoBackward();

  // Serves the evaluation passes of other ranks until all of them are here.
  void ServeUntilAllDone();

  // Outside of passes: the parameter has these values (see BorrowedParameter) until it is taken
  // back.
  void Lend(int unit, int parameter, const at::Tensor& values);
  void TakeBack(int unit, int parameter);

  // Whether a forward or backward is under way.
  bool in_pass() const;

  // Training passes since the last step that count. An abandoned one may take others with it.
  int micro_batches_done() const;

 private:
  class Impl;
  // Shared with the autograd nodes, which may live longer than this.
  std::shared_ptr<Impl> impl_;
};

}  // namespace thinwire::adapter
