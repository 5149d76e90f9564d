// Running a kernel: a Core for each block, blocks on several host threads, and all reports in one error.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "twin/state.h"
#include "twin/text.h"

namespace npu_lp::twin {
namespace {

thread_local Core* current_core = nullptr;

std::string describe(const std::string& kernel, const std::vector<Report>& reports) {
  std::string message = text("the twin stopped kernel ", kernel, ":");
  for (const Report& report : reports) {
    message +=
        text("\n  ", report.loc, ": [", check_name(report.check), "] block ", report.block, ": ", report.message);
  }
  return message;
}

int host_threads(const Options& options, int blocks) {
  int threads = options.threads;
  if (threads <= 0) {
    cpu_set_t cpus;
    threads = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  }
  return std::max(1, std::min(threads, blocks));
}

// What one block left behind.
struct BlockResult {
  std::vector<Record> records;
  std::vector<GmAccess> accesses;
  std::optional<Report> report;
  std::exception_ptr error;
};

void run_block(BlockResult& result, CoreKind kind, int block, int blocks, const Options& options,
               const std::vector<GmRange>& gm, const std::function<void()>& body) {
  Core core(kind, block, blocks, options, gm);
  Core* const outer = std::exchange(current_core, &core);
  try {
    body();
    core.finish();
  } catch (const Stop& stop) {
    result.report = stop.report;
  } catch (...) {
    result.error = std::current_exception();
  }
  current_core = outer;
  result.records = core.take_records();
  core.take_gm_accesses(result.accesses);
}

}  // namespace

const char* check_name(Check check) {
  constexpr const char* names[] = {"bounds", "alignment", "parameter", "type",      "poison",
                                   "flag",   "queue",     "race",      "core_race", "memory_order"};
  return names[static_cast<int>(check)];
}

TwinError::TwinError(const std::string& kernel, std::vector<Report> reports)
    : std::runtime_error(describe(kernel, reports)), reports_(std::move(reports)) {}

Core& this_core() {
  if (current_core == nullptr) {
    throw std::logic_error("an AscendC call outside a kernel: call kernels through npu_lp::twin::launch");
  }
  return *current_core;
}

bool in_launch() {
  return current_core != nullptr;
}

Core::Core(CoreKind kind, int block, int blocks, const Options& options, const std::vector<GmRange>& gm)
    : state_(new State(kind, block, blocks, options, gm)) {
  State& s = *state_;
  if (!s.shuffled()) return;
  s.done.resize(1, true);
  s.random = options.seed * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(block);
  s.style = static_cast<int>(options.seed % 2);
  for (int& priority : s.priority) priority = static_cast<int>(s.next_random() >> 40);
}

Core::~Core() {
  Memories::give_back(std::move(state_->memories));
}

CoreKind Core::kind() const {
  return state_->kind;
}
int Core::block() const {
  return state_->block;
}
int Core::blocks() const {
  return state_->blocks;
}
const Options& Core::options() const {
  return state_->options;
}
bool Core::computes() const {
  return state_->options.mode != Mode::kTimingOnly;
}

void Core::fail(Check check, Loc loc, const std::string& message) {
  throw Stop{Report{check, state_->block, loc, message}};
}

void Core::at_finish(std::function<void(Core&)> check) {
  state_->checks_at_end.push_back(std::move(check));
}

std::vector<Record> Core::take_records() {
  return std::move(state_->records);
}

void Core::take_gm_accesses(std::vector<GmAccess>& all) {
  all.insert(all.end(), state_->gm_log.begin(), state_->gm_log.end());
  state_->gm_log.clear();
}

LaunchRecord launch(const std::string& kernel, CoreKind kind, int blocks, const Options& options,
                    const std::vector<GmRange>& gm, const std::function<void()>& body) {
  if (blocks < 1) throw std::invalid_argument(text("kernel ", kernel, ": ", blocks, " blocks; at least 1 is needed"));
  std::vector<BlockResult> results(static_cast<size_t>(blocks));
  std::atomic<int> next{0};
  const auto work = [&] {
    for (int block = next++; block < blocks; block = next++) {
      run_block(results[static_cast<size_t>(block)], kind, block, blocks, options, gm, body);
    }
  };
  std::vector<std::thread> helpers;
  for (int i = 1; i < host_threads(options, blocks); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();

  LaunchRecord record{kernel, kind, {}};
  std::vector<Report> reports;
  std::vector<GmAccess> accesses;
  for (BlockResult& result : results) {
    if (result.error) std::rethrow_exception(result.error);
    if (result.report) reports.push_back(*result.report);
    record.cores.push_back(std::move(result.records));
    accesses.insert(accesses.end(), result.accesses.begin(), result.accesses.end());
  }
  for (Report& report : find_gm_races(std::move(accesses))) reports.push_back(std::move(report));
  if (!reports.empty()) throw TwinError(kernel, std::move(reports));
  return record;
}

}  // namespace npu_lp::twin
