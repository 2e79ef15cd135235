// `thinwire plan`: what a step costs on a cluster that is described, not there.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <ostream>
#include <string>

namespace thinwire::app {

struct PlanQuestion {
  int hosts = 0;
  int ranks = 0;
  double gbit = 0;
  double params = 0;
  int64_t layers = 0, hidden = 0, vocab = 0;
  double tokens = 4096;
  int micro_batches = 1;
  double flops = 4e14;
  double compute_s = 0;       // 0: from flops
  std::string measured;       // path; empty: none
  double cores_per_rank = 0;  // 0: as measured, or as many as a rank can use
  double fast_gbit = 2400;
  double latency_us = 20;
  double codec_rate = 1e11;
  double memory_gib = 0;
  std::string recipe = "all";
  double loss_budget = 0.25;
  bool half_duplex = false;
  bool json = false;
};

// Adds the options of the command; they are read into `question`.
void AddPlanOptions(CLI::App& command, PlanQuestion& question);

// Throws UsageError naming the option that makes no sense.
void PrintPlan(const PlanQuestion& question, std::ostream& out);

}  // namespace thinwire::app
