// The twin behind CPU tensors: settings of the process, and what its last launches recorded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "twin/machine.h"

namespace npu_lp::ascend {

// Of the process, not of a thread: a backward pass runs in threads of autograd's own.
struct TwinSettings {
  twin::Mode mode = twin::Mode::kProgramOrder;
  uint64_t seed = 0;   // kShuffled; each launch draws its own from this one
  int cores = 32;      // AI cores; vector kernels run on twice as many halves
  bool strict = true;  // twin::Options::strict_tensor_sizes
  bool record = false;
  int threads = 0;
  size_t keep = 64;  // launches whose records are kept; the oldest go first
};

TwinSettings twin_settings();
void set_twin_settings(const TwinSettings& settings);

// Launches since the last clear, at most `keep`, the newest last.
std::vector<std::shared_ptr<const twin::LaunchRecord>> twin_records();
// Launches since the last clear, kept or not.
uint64_t twin_launches();
void clear_twin_records();

// How TwinErrors leave the ops: the Python module sets a function that throws its own exception instead.
void set_twin_error_handler(void (*handler)(const twin::TwinError& error));

}  // namespace npu_lp::ascend
