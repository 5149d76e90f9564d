#include "harness.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(NPU_LP_SANITIZED)
#include <sanitizer/common_interface_defs.h>
#endif

namespace npu_lp::cpu::test {

std::vector<const Kernels*> tables;

namespace {

std::string current;

void print_current() {
  std::fprintf(stderr, "\nwhile computing %s\n", current.c_str());
}

#if !defined(NPU_LP_SANITIZED)
void on_fault(int signal) {
  std::fprintf(stderr, "\nFAILED: memory outside of a buffer was touched (signal %d)", signal);
  print_current();
  std::_Exit(1);
}
#endif

// The control register of floating-point arithmetic, and what callers may have in it.
#if defined(__x86_64__)
uint64_t control() {
  return _mm_getcsr();
}
void set_control(uint64_t value) {
  _mm_setcsr(static_cast<unsigned>(value));
}
uint64_t callers_control(Source& from) {  // all exceptions masked; FTZ, DAZ, rounding
  return 0x1F80u | from.below(2) << 15 | from.below(2) << 6 | from.below(4) << 13;
}
#else
uint64_t control() {
  uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void set_control(uint64_t value) {
  asm volatile("msr fpcr, %0" : : "r"(value));
}
uint64_t callers_control(Source& from) {  // FZ16, FZ, DN, rounding
  return from.below(2) << 19 | from.below(2) << 24 | from.below(2) << 25 | from.below(4) << 22;
}
#endif

// Every `step`th unit, as a caller would on a thread of its own. Returns what is wrong, or "".
std::string run_some(const Units& units, size_t first, size_t step, size_t workspace_size, uint64_t callers) {
  Buffer workspace(workspace_size, 0xFF);  // what a workspace holds must not matter: NaNs
  const uint64_t ours = control();
  set_control(callers);
  const uint64_t before = control();
  {
    const FloatEnvironment environment;
    for (size_t i = first; i < units.size(); i += step) units[i](workspace.data());
  }
  const uint64_t after = control();
  set_control(ours);
#if defined(__x86_64__)
  constexpr uint64_t kState = ~uint64_t{0x3F};  // the lower bits are flags of what has happened
#else
  constexpr uint64_t kState = ~uint64_t{0};
#endif
  if ((before & kState) != (after & kState)) return "FloatEnvironment did not put the caller's state back";
  if (!workspace.guard_intact()) return "bytes before the workspace were written";
  return "";
}

}  // namespace

void describe(const std::string& what) {
  static const bool once = [] {
#if defined(NPU_LP_SANITIZED)
    __sanitizer_set_death_callback(print_current);
#else
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL}) ::signal(signal, on_fault);
#endif
    return true;
  }();
  static_cast<void>(once);
  current = what;
}

void run(Source& from, const Kernels& table, Units units, int64_t workspace_size) {
  const size_t size = static_cast<size_t>(workspace_size);
  for (size_t i = units.size(); i > 1; --i) std::swap(units[i - 1], units[from.below(i)]);
  const size_t threads = from.one_in(4) ? from.pick<size_t>({2, 3, 7}) : 1;
  std::vector<std::string> problems(threads);
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) {
    const uint64_t callers = callers_control(from);
    others.emplace_back([&, i, callers] { problems[i] = run_some(units, i, threads, size, callers); });
  }
  problems[0] = run_some(units, 0, threads, size, callers_control(from));
  for (std::thread& other : others) other.join();
  for (const std::string& problem : problems) {
    if (!problem.empty()) throw Failure(std::string(table.name) + ": " + problem + "\n  " + current);
  }
}

std::vector<std::pair<int64_t, int64_t>> cut(Source& from, int64_t count, int64_t step) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  const int64_t pieces = from.one_in(3) ? 1 : from.between(1, 9), steps = (count + step - 1) / step;
  for (int64_t begin = 0; begin < steps;) {
    const int64_t end = pieces == 1 ? steps : std::min(steps, begin + from.between(1, 2 * steps / pieces + 1));
    ranges.emplace_back(begin * step, std::min(end * step, count));
    begin = end;
  }
  return ranges;
}

void expect_equal(const std::string& what, const Buffer& expected, const Buffer& actual, size_t element) {
  if (!actual.guard_intact()) throw Failure(what + ": bytes before the buffer were written\n  " + current);
  if (std::memcmp(expected.data(), actual.data(), expected.size()) == 0) return;
  size_t at = 0, differ = 0;
  for (size_t i = expected.size() / element; i-- > 0;) {
    if (std::memcmp(expected.data() + i * element, actual.data() + i * element, element) == 0) continue;
    at = i;
    ++differ;
  }
  uint32_t want = 0, got = 0;
  std::memcpy(&want, expected.data() + at * element, element);
  std::memcpy(&got, actual.data() + at * element, element);
  char text[200];
  std::snprintf(text, sizeof text, ": %zu of %zu differ; the first at %zu: 0x%x, must be 0x%x\n  ", differ,
                expected.size() / element, at, got, want);
  throw Failure(what + text + current);
}

void Tally::print_and_clear() {
  for (const auto& [op, formats] : values_) {
    int64_t total = 0, least = formats.begin()->second;
    for (const auto& [format, values] : formats) {
      total += values;
      least = std::min(least, values);
    }
    for (const Kernels* table : tables) {
      std::printf("%-15s %-7s %12lld values equal, at least %lld for each of %zu formats\n", op.c_str(), table->name,
                  static_cast<long long>(total), static_cast<long long>(least), formats.size());
    }
  }
  std::fflush(stdout);
  values_.clear();
}

}  // namespace npu_lp::cpu::test
