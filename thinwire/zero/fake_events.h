// Passes of any order over the units of the fake model, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "thinwire/zero/fake_cluster.h"
#include "thinwire/zero/program.h"

namespace thinwire::zero {

// "a0 r0 g0": acquire, release, reduce of unit 0; blanks are skipped, units have one digit.
inline std::vector<Event> EventsOf(std::string_view text) {
  std::vector<Event> events;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == ' ') continue;
    const EventKind kind = text[i] == 'a'   ? EventKind::kAcquire
                           : text[i] == 'r' ? EventKind::kRelease
                                            : EventKind::kReduce;
    events.push_back({kind, text[++i] - '0'});
  }
  return events;
}

// Makes the calls of a pass that has begun, with the gradients of FakeGradient. Weights must be
// `masters` from the acquire to the release. In fp32.
inline void Play(Engine& engine, int rank, int64_t step, int micro,
                 const std::vector<Event>& events, const std::vector<std::vector<float>>& masters) {
  std::vector<const float*> data(masters.size());
  const auto look = [&](int u) {
    const std::vector<float>& expected = masters[static_cast<size_t>(u)];
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), data[static_cast<size_t>(u)]))
        << "weights of unit " << u << ", rank " << rank << ", step " << step;
  };
  for (const Event& event : events) {
    const int u = event.unit;
    switch (event.kind) {
      case EventKind::kAcquire:
        data[static_cast<size_t>(u)] = reinterpret_cast<const float*>(engine.Acquire(u));
        look(u);
        break;
      case EventKind::kRelease:
        look(u);
        engine.Release(u);
        break;
      case EventKind::kReduce: {
        const std::vector<float>& flat = masters[static_cast<size_t>(u)];
        float* gradient = reinterpret_cast<float*>(engine.GradientBuffer(u));
        for (size_t i = 0; i < flat.size(); ++i) {
          gradient[i] = FakeGradient(flat[i], u, static_cast<int64_t>(i), rank, step, micro);
        }
        engine.ReduceGradients(u);
        break;
      }
    }
  }
}

inline void PlayPass(Engine& engine, PassKind kind, int rank, int64_t step, int micro, bool last,
                     const std::vector<Event>& events,
                     const std::vector<std::vector<float>>& masters) {
  engine.BeginPass(kind, last);
  Play(engine, rank, step, micro, events, masters);
  engine.EndPass();
}

// The masters of this rank are the reference's, bit by bit.
inline void ExpectMasters(Engine& engine, const Reference& reference) {
  for (const OwnedStretch& owned : engine.Owned()) {
    const UnitLayout& unit = engine.plan().units[static_cast<size_t>(owned.unit)];
    const auto& flat = reference.master()[static_cast<size_t>(owned.unit)];
    const int64_t at = unit.places[static_cast<size_t>(owned.parameter)].offset + owned.offset;
    ASSERT_TRUE(std::equal(owned.master.begin(), owned.master.end(), flat.begin() + at))
        << unit.spec.name;
  }
}

}  // namespace thinwire::zero
