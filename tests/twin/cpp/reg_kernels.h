// A vector function on two tensors of UB: 4096 bytes in at address 0, 4096 out at address 8192.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "twin/kernel_operator.h"

using namespace AscendC;
using namespace npu_lp::twin;
using npu_lp::bits_of;
using npu_lp::float_of;

constexpr uint32_t kBytes = 4096;

struct Ub {
  std::vector<uint8_t> in = std::vector<uint8_t>(kBytes);
  std::vector<uint8_t> in_defined = std::vector<uint8_t>(kBytes, 1);
  std::vector<uint8_t> out = std::vector<uint8_t>(kBytes);
  std::vector<uint8_t> out_defined = std::vector<uint8_t>(kBytes);
  VectorCounts counts;
  uint64_t control = 0x1000000000000008ull;
  int line = 0;  // that a fault is expected at

  Ub() {
    for (uint32_t i = 0; i < kBytes; ++i) in[i] = static_cast<uint8_t>(i * 7 + i / 256);
  }
  template <typename T>
  void fill(const std::vector<T>& values) {
    std::memcpy(in.data(), values.data(), values.size() * sizeof(T));
  }
  template <typename T>
  T result(uint32_t index) const {
    T value;
    std::memcpy(&value, out.data() + index * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T>
  T input(uint32_t index) const {
    T value;
    std::memcpy(&value, in.data() + index * sizeof(T), sizeof(T));
    return value;
  }

  // body(in, out): pointers of type T.
  template <typename T, typename F>
  std::vector<Report> run(F body, const Options& options = {}) {
    try {
      const LaunchRecord record = launch("test", CoreKind::kVector, 1, options, {}, [&] {
        Core& core = this_core();
        core.control = control;
        LocalTensor<uint8_t> source(TPosition::VECIN, 0, kBytes);
        LocalTensor<uint8_t> target(TPosition::VECOUT, 8192, kBytes);
        T* from = reinterpret_cast<T*>(source.GetPhyAddr());
        T* to = reinterpret_cast<T*>(target.GetPhyAddr());
        std::memcpy(from, in.data(), kBytes);
        core.begin_instruction(Record{});
        core.access({Space::kUB, 0, kBytes}, true, Loc::here());
        core.end_instruction();
        std::memcpy(core.defined_map(Space::kUB), in_defined.data(), kBytes);
        core.barrier_all(Loc::here());
        __VEC_SCOPE__ {
          body(from, to);
        }
        core.drain();
        std::memcpy(out.data(), to, kBytes);
        std::memcpy(out_defined.data(), core.defined_map(Space::kUB) + 8192, kBytes);
      });
      for (const Record& r : record.cores[0]) {
        if (r.op == Op::kVector) counts = r.vector;
      }
    } catch (const TwinError& error) {
      return error.reports();
    }
    return {};
  }
};

inline bool says(const std::vector<Report>& reports, Check wanted, int line, const char* words, const char* file,
                 int here) {
  if (reports.empty()) {
    std::printf("%s:%d: no report; wanted [%s]\n", file, here, check_name(wanted));
    return false;
  }
  const Report& report = reports[0];
  if (report.check == wanted && report.loc.line == line && report.message.find(words) != std::string::npos) return true;
  std::printf("%s:%d: wanted [%s] at line %d: %s; got [%s] at line %d: %s\n", file, here, check_name(wanted), line,
              words, check_name(report.check), report.loc.line, report.message.c_str());
  return false;
}
#define EXPECT_FAULT(reports, check, at, words) EXPECT(says(reports, Check::check, at, words, __FILE__, __LINE__))
#define EXPECT_CLEAN(reports)                                                                 \
  do {                                                                                        \
    const std::vector<Report> all = reports;                                                  \
    EXPECT(all.empty());                                                                      \
    if (!all.empty()) std::printf("%s:%d: %s\n", __FILE__, __LINE__, all[0].message.c_str()); \
  } while (false)
