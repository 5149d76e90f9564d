// A timeline in the Chrome trace format, which Perfetto and chrome://tracing open: one process a core, one lane a pipe,
// with msprof's names of pipes.
#pragma once

#include <string>
#include <vector>

#include "twin/record.h"

namespace npu_lp::twin {

class Trace {
 public:
  // Keeps the first `cores` cores only: a large matmul has a million instructions.
  explicit Trace(int cores = 2) : cores_(cores) {}

  // One instruction; times in microseconds.
  void add(int core, const Record& record, double start, double end) {
    if (core < cores_) events_.push_back({core, record, start, end});
  }
  size_t size() const { return events_.size(); }

  // Writes to a temporary name beside `path` first, so that `path` is never half a file. Throws std::runtime_error.
  void write(const std::string& path, const std::string& kernel, CoreKind kind) const;

 private:
  struct Event {
    int core;
    Record record;
    double start, end;
  };
  int cores_;
  std::vector<Event> events_;
};

}  // namespace npu_lp::twin
