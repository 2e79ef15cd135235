#include "thinwire/optim/clip.h"

#include <cmath>
#include <limits>

#include "thinwire/base/error.h"

namespace thinwire::optim {

double ClipCoefficient(double norm, double max_norm) {
  THINWIRE_CHECK(max_norm >= 0 && std::isfinite(max_norm), "max_norm ", max_norm);
  THINWIRE_CHECK(!(norm < 0), "norm ", norm);
  if (!std::isfinite(norm)) return std::numeric_limits<double>::quiet_NaN();
  if (max_norm == 0 || norm <= max_norm) return 1;
  return max_norm / (norm + 1e-6);
}

}  // namespace thinwire::optim
