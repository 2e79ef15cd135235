// Clipping by the global norm of the gradient.
#pragma once

namespace thinwire::optim {

// What every gradient is multiplied with: exactly 1 when max_norm is 0 (no clipping) or
// norm <= max_norm, else max_norm / (norm + 1e-6), as torch.nn.utils.clip_grad_norm_ has it.
//
// A norm that is NaN or inf gives NaN, whatever max_norm: there is no coefficient that makes such
// gradients usable, 0 would launder inf into 0 or NaN, and the caller is to skip the step. It
// should test the norm itself. norm and max_norm must not be negative, max_norm must be finite.
double ClipCoefficient(double norm, double max_norm);

}  // namespace thinwire::optim
