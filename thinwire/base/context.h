// Where a kernel, codec or transport call runs. Passed down; never a global.
#pragma once

#include "thinwire/base/cpu_features.h"

namespace thinwire {

struct ExecContext {
  Isa isa = BestIsa();
};

}  // namespace thinwire
