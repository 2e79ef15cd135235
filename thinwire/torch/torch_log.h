// PyTorch's own log. Its warnings about a lost store or socket print a C++ stack each, beside the
// one line with which thinwire says the same.
#pragma once

namespace thinwire::adapter {

// For main(), before anything else of PyTorch: PyTorch logs errors only, unless the variable
// TORCH_CPP_LOG_LEVEL says otherwise. For the whole process.
void QuietTorchLog();

}  // namespace thinwire::adapter
