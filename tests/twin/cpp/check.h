// The smallest of test frameworks: EXPECT(condition) counts failures, tests register themselves, main() runs them.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "twin/machine.h"

namespace check {

inline int failures = 0;

struct Test {
  const char* name;
  std::function<void()> run;
};
inline std::vector<Test>& tests() {
  static std::vector<Test> list;
  return list;
}
struct Register {
  Register(const char* name, std::function<void()> run) { tests().push_back({name, run}); }
};

#define TEST(name)                                            \
  static void test_##name();                                  \
  static check::Register register_##name(#name, test_##name); \
  static void test_##name()

#define EXPECT(condition)                                                   \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ++check::failures;                                                    \
      std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                       \
  } while (false)

inline int run_all() {
  for (const Test& test : tests()) {
    const int before = failures;
    try {
      test.run();
    } catch (const std::exception& error) {
      ++failures;
      std::printf("%s: threw %s\n", test.name, error.what());
    }
    std::printf("%s %s\n", failures == before ? "ok  " : "FAIL", test.name);
  }
  std::printf("%zu tests, %d failures\n", tests().size(), failures);
  return failures == 0 ? 0 : 1;
}

// Runs a one-block kernel that must stop with this check, and a report that says `words`.
inline void expect_report(npu_lp::twin::CoreKind kind, npu_lp::twin::Check wanted, const std::string& words,
                          const std::vector<npu_lp::twin::GmRange>& gm, const std::function<void()>& body,
                          const char* file, int line) {
  try {
    npu_lp::twin::launch("test", kind, 1, {}, gm, body);
  } catch (const npu_lp::twin::TwinError& error) {
    const npu_lp::twin::Report& report = error.reports().front();
    if (report.check == wanted && report.message.find(words) != std::string::npos) return;
    ++failures;
    std::printf("%s:%d: wanted [%s] ... %s ..., got %s\n", file, line, check_name(wanted), words.c_str(), error.what());
    return;
  }
  ++failures;
  std::printf("%s:%d: no report; wanted [%s] ... %s ...\n", file, line, check_name(wanted), words.c_str());
}

}  // namespace check
