// A shared engine whose weights somebody else has, and how they get into it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "thinwire/infer/live_model.h"
#include "thinwire/python/shared_engine.h"

namespace thinwire::python {

class LiveWeights {
 public:
  explicit LiveWeights(std::shared_ptr<infer::LiveModel> model)
      : model_(std::move(model)),
        shared_(std::make_shared<SharedEngine>(
            std::shared_ptr<infer::Engine>(model_, &model_->engine()))) {
    shared_->Close();
  }

  const std::shared_ptr<SharedEngine>& shared() const { return shared_; }
  const infer::LiveModel& model() const { return *model_; }

  // As infer::LiveModel has them; requests are refused from Begin until End has succeeded.
  void Begin() {
    shared_->Close();
    model_->Begin();
  }
  void Set(const std::string& source, std::span<const float> values) {
    model_->Set(source, values);
  }
  void End() {
    model_->End();
    shared_->Open();
  }

 private:
  const std::shared_ptr<infer::LiveModel> model_;
  const std::shared_ptr<SharedEngine> shared_;
};

}  // namespace thinwire::python
