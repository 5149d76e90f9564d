#include "ascend/host/twin_runtime.h"

#include <c10/util/Exception.h>

#include <cfenv>
#include <deque>
#include <mutex>
#include <utility>

#include "ascend/host/runtime.h"
#include "ascend/host/twin_launch.h"

namespace npu_lp::ascend {

namespace {

struct State {
  std::mutex mutex;
  TwinSettings settings;
  std::deque<std::shared_ptr<const twin::LaunchRecord>> records;
  uint64_t launches = 0;
  void (*error_handler)(const twin::TwinError& error) = nullptr;
};

State& state() {
  static State instance;
  return instance;
}

void keep_record(State& s, twin::LaunchRecord&& record) {
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.records.push_back(std::make_shared<const twin::LaunchRecord>(std::move(record)));
  while (s.records.size() > s.settings.keep) s.records.pop_front();
}

// The bytes from a tensor's first element to its last.
twin::GmRange range_of(const Tensor& t) {
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return {t.const_data_ptr(), static_cast<uint64_t>(last + 1) * t.element_size()};
}

// Rounding to nearest with subnormals, whatever the calling thread had set; the threads of a launch inherit it.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace

TwinSettings twin_settings() {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return s.settings;
}

void set_twin_settings(const TwinSettings& settings) {
  TORCH_CHECK_VALUE(settings.cores >= 1 && settings.cores <= 64, "npu_lp.twin: cores=", settings.cores,
                    " is out of range. Pass 1 to 64; an Ascend 950PR has 32.");
  TORCH_CHECK_VALUE(settings.threads >= 0, "npu_lp.twin: threads=", settings.threads,
                    " is negative. Pass 0 to use all processors, or how many threads may run cores.");
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.settings = settings;
}

std::vector<std::shared_ptr<const twin::LaunchRecord>> twin_records() {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return {s.records.begin(), s.records.end()};
}

uint64_t twin_launches() {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return s.launches;
}

void clear_twin_records() {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.records.clear();
  s.launches = 0;
}

void set_twin_error_handler(void (*handler)(const twin::TwinError& error)) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.error_handler = handler;
}

CoreCounts core_counts() {
  const int cores = twin_settings().cores;
  return {cores, 2 * cores};
}

bool values_at_hand(const Tensor&) {
  return true;
}

void enqueue(const char*, std::vector<Tensor> tensors, std::function<void(Stream)> launch) {
  State& s = state();
  TwinLaunch stream;
  void (*handler)(const twin::TwinError& error) = nullptr;
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    const TwinSettings& settings = s.settings;
    stream.options.mode = settings.mode;
    stream.options.seed = settings.seed + s.launches++;
    stream.options.strict_tensor_sizes = settings.strict;
    stream.options.record = settings.record;
    stream.options.threads = settings.threads;
    if (settings.record) {
      stream.sink = [&s](twin::LaunchRecord&& record) { keep_record(s, std::move(record)); };
    }
    handler = s.error_handler;
  }
  for (const Tensor& t : tensors) {
    if (t.defined() && t.numel() > 0) stream.gm.push_back(range_of(t));
  }
  const DefaultFloatEnvironment environment;
  try {
    launch(&stream);
  } catch (const twin::TwinError& error) {
    if (handler != nullptr) handler(error);
    throw;
  }
}

}  // namespace npu_lp::ascend
