// What the machine's tests share: a launch that must stay silent, one that must stop at a given line, and stand-ins for
// the vector and cube instructions, so that the machine is tested without the register and cube APIs.
#pragma once

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "check.h"
#include "twin/data_copy.h"
#include "twin/queue.h"
#include "twin/sync.h"

using namespace AscendC;
using npu_lp::twin::Check;
using npu_lp::twin::Core;
using npu_lp::twin::CoreKind;
using npu_lp::twin::GmRange;
using npu_lp::twin::LaunchRecord;
using npu_lp::twin::Mode;
using npu_lp::twin::Op;
using npu_lp::twin::Options;
using npu_lp::twin::Pipe;
using npu_lp::twin::Record;
using npu_lp::twin::Report;
using npu_lp::twin::Space;
using npu_lp::twin::Span;
using npu_lp::twin::this_core;
using npu_lp::twin::TwinError;

// Runs `body` and returns the reports.
inline std::vector<Report> reports_of(CoreKind kind, int blocks, const Options& options, const std::vector<GmRange>& gm,
                                      const std::function<void()>& body) {
  try {
    npu_lp::twin::launch("test", kind, blocks, options, gm, body);
  } catch (const TwinError& error) {
    return error.reports();
  }
  return {};
}

inline void show(const std::vector<Report>& reports) {
  for (const Report& report : reports) {
    std::printf("    got [%s] line %d: %s\n", check_name(report.check), report.loc.line, report.message.c_str());
  }
}

// The first report must be `check` at line `line` of this file's kernel; 0: there must be none.
inline void expect(const char* file, int here, const std::vector<Report>& reports, int line, Check check,
                   const std::string& words) {
  const bool good = line == 0 ? reports.empty()
                              : !reports.empty() && reports[0].check == check && reports[0].loc.line == line &&
                                    std::string(reports[0].loc.file) == file &&
                                    reports[0].message.find(words) != std::string::npos;
  if (good) return;
  ++check::failures;
  if (line == 0) {
    std::printf("%s:%d: wanted no report\n", file, here);
  } else {
    std::printf("%s:%d: wanted [%s] line %d: ...%s...\n", file, here, check_name(check), line, words.c_str());
  }
  show(reports);
}

#define EXPECT_CLEAN(reports) expect(__FILE__, __LINE__, reports, 0, Check::kBounds, "")
#define EXPECT_AT(line, check, words, reports) expect(__FILE__, __LINE__, reports, line, Check::check, words)

// GM of one launch, and a way to name its parts.
struct Gm {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(4096);
  Gm() { std::iota(bytes.begin(), bytes.end(), uint8_t{0}); }
  std::vector<GmRange> ranges() { return {{bytes.data(), 2048}, {bytes.data() + 2048, 2048}}; }
  GlobalTensor<uint8_t> in() { return tensor(0); }
  GlobalTensor<uint8_t> out() { return tensor(2048); }
  GlobalTensor<uint8_t> tensor(size_t offset) {
    GlobalTensor<uint8_t> global;
    global.SetGlobalBuffer(bytes.data() + offset);
    return global;
  }
  std::vector<Report> vector_kernel(const std::function<void()>& body, Options options = {}, int blocks = 1) {
    return reports_of(CoreKind::kVector, blocks, options, ranges(), body);
  }
  std::vector<Report> cube_kernel(const std::function<void()>& body, Options options = {}) {
    return reports_of(CoreKind::kCube, 1, options, ranges(), body);
  }
};

inline LocalTensor<uint8_t> ub(uint32_t address, uint32_t size = 64) {
  return LocalTensor<uint8_t>(TPosition::VECCALC, address, size);
}

// A vector instruction: dst[i] = src[i] + 1.
inline void vector_add(const LocalTensor<uint8_t>& dst, const LocalTensor<uint8_t>& src, uint32_t bytes,
                       Loc loc = Loc::here()) {
  const Span from{Space::kUB, src.begin(), bytes};
  const Span to{Space::kUB, dst.begin(), bytes};
  Record record;
  record.op = Op::kVector;
  record.pipe = Pipe::kV;
  record.loc = loc;
  this_core().issue(record, {from}, {to}, [from, to](Core& core) {
    uint8_t* memory = core.memory(Space::kUB);
    for (uint64_t i = 0; i < from.len; ++i) memory[to.begin + i] = static_cast<uint8_t>(memory[from.begin + i] + 1);
    std::memcpy(core.defined_map(Space::kUB) + to.begin, core.defined_map(Space::kUB) + from.begin, from.len);
  });
}

// A product of m x n that reads 512 bytes of L0A and L0B.
inline void product(uint16_t m, uint16_t n, uint8_t unit_flag = 0, Loc loc = Loc::here()) {
  Record record;
  record.op = Op::kMmad;
  record.pipe = Pipe::kM;
  record.m = m;
  record.n = n;
  record.k = 32;
  record.unit_flag = unit_flag;
  record.loc = loc;
  const Span c{Space::kL0C, 0, uint64_t{m} * n * 4};
  this_core().issue(record, {{Space::kL0A, 0, 512}, {Space::kL0B, 0, 512}}, {c}, [c](Core& core) { core.define(c); });
}

// L1 -> L0A.
inline void load(uint64_t address, Loc loc = Loc::here()) {
  Record record;
  record.op = Op::kLoad;
  record.pipe = Pipe::kMTE1;
  record.loc = loc;
  this_core().issue(record, {{Space::kL1, address, 512}}, {{Space::kL0A, address, 512}}, [](Core&) {});
}

inline DataCopyExtParams rows(uint16_t count, uint32_t bytes, int64_t source = 0, int64_t destination = 0) {
  return DataCopyExtParams(count, bytes, source, destination, 0);
}
inline DataCopyPadExtParams<uint8_t> no_padding() {
  return DataCopyPadExtParams<uint8_t>(false, 0, 0, 0);
}
template <HardEvent event>
void handshake(int id = 0, Loc loc = Loc::here()) {
  SetFlag<event>(id, loc);
  WaitFlag<event>(id, loc);
}
