// A piece of work that happens at a place in backward: an identity in forward whose autograd node
// calls a function when the gradient passes it.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <utility>
#include <vector>

namespace thinwire::adapter {

// Turns the gradient of the output into the gradients of the inputs the node was attached to.
using BackwardFunction =
    std::function<std::vector<at::Tensor>(std::vector<at::Tensor>&& gradients)>;

class BackwardNode final : public torch::autograd::Node {
 public:
  explicit BackwardNode(BackwardFunction function) : function_(std::move(function)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return function_(std::move(gradients));
  }
  std::string name() const override { return "ThinwireBackward"; }
  void release_variables() override { function_ = nullptr; }

 private:
  BackwardFunction function_;
};

// A tensor with y's values whose gradient goes through `function` and from there to `input` (which
// may be one that needs no gradient: then function's result is dropped).
inline at::Tensor AttachBackward(const at::Tensor& y, const at::Tensor& input,
                                 BackwardFunction function) {
  auto node = c10::make_intrusive<BackwardNode>(std::move(function));
  node->set_next_edges(torch::autograd::collect_next_edges(input));
  at::Tensor out = y.detach();
  torch::autograd::create_gradient_edge(out, node);
  return out;
}

// The same for several tensors at once: each is replaced by an alias, and `function` runs when the
// gradients of all of them that matter are there, and passes them on as they are. All require grad.
inline void WatchBackward(std::vector<at::Tensor>& tensors, std::function<void()> function) {
  auto node = c10::make_intrusive<BackwardNode>(
      [run = std::move(function)](std::vector<at::Tensor>&& gradients) {
        run();
        return std::move(gradients);
      });
  for (const at::Tensor& tensor : tensors) {
    node->add_next_edge(torch::autograd::impl::gradient_edge(tensor));
  }
  for (at::Tensor& tensor : tensors) {
    at::Tensor alias = tensor.detach();
    torch::autograd::create_gradient_edge(alias, node);
    tensor = std::move(alias);
  }
}

}  // namespace thinwire::adapter
