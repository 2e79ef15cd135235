// Ranks that were started with different configs say so before the first step.
#pragma once

#include "thinwire/train/config.h"
#include "thinwire/transport/transport.h"

namespace thinwire::train {

// Called by every rank, before `control` is used for anything else. Throws PeerError on every rank
// when a key that all must share differs: it names the key and each rank's value.
// `data_fingerprint` stands for the text behind data.files.
void AgreeOnConfig(transport::Transport& control, const Config& config, uint64_t data_fingerprint);

}  // namespace thinwire::train
