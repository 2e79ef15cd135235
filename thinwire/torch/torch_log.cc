#include "thinwire/torch/torch_log.h"

#include <c10/util/Logging.h>

#include <cstdlib>

namespace thinwire::adapter {

void QuietTorchLog() {
  constexpr int kErrors = 2;  // GLOG_ERROR
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = kErrors;
  c10::initLogging();
}

}  // namespace thinwire::adapter
