// Shared by the cube_*.cpp files: messages, checks, taint, unit flags.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "twin/cube_engine.h"
#include "twin/text.h"

namespace npu_lp::twin::cube {

template <typename... Parts>
void require(Core& core, bool holds, Check check, Loc loc, const Parts&... parts) {
  if (!holds) core.fail(check, loc, text(parts...));
}

inline void require_range(Core& core, const char* api, const char* field, uint64_t value, uint64_t low, uint64_t high,
                          Loc loc) {
  require(core, value >= low && value <= high, Check::kParameter, loc, api, ": ", field, " = ", value,
          " is outside what the hardware takes, ", low, " to ", high);
}

inline void require_aligned(Core& core, const char* api, const char* what, const Region& region, uint32_t alignment,
                            Loc loc) {
  require(core, region.begin % alignment == 0, Check::kAlignment, loc, api, ": ", what, " starts at byte ",
          region.begin, " of ", space_name(region.space), "; it must be a multiple of ", alignment);
}

inline void require_space(Core& core, const char* api, const char* what, const Region& region, bool holds,
                          const char* allowed, Loc loc) {
  require(core, holds, Check::kParameter, loc, api, ": ", what, " is in ", space_name(region.space),
          "; the instruction takes ", allowed);
}

inline void require_cube_core(Core& core, const char* api, Loc loc) {
  require(core, core.kind() == CoreKind::kCube, Check::kParameter, loc, api,
          " runs on a cube core only; launch the kernel as __cube__");
}

constexpr uint64_t align_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Inside the tensor (unless that is switched off) and inside its memory.
inline void check_region(Core& core, const char* api, const char* what, const Region& region, const Span& span,
                         Loc loc) {
  require(core, !core.options().strict_tensor_sizes || (span.begin >= region.begin && end_of(span) <= region.end),
          Check::kBounds, loc, api, ": ", what, " takes bytes ", span.begin, " to ", end_of(span), " of ",
          space_name(region.space), ", the tensor is ", region.begin, " to ", region.end);
  core.check_bounds(span, loc, what);
}

inline bool all_defined(const uint8_t* map, uint64_t bytes) {
  return std::memchr(map, 0, bytes) == nullptr;
}

// Copies bytes together with whether they were ever written.
inline void copy_tainted(Core& core, Space to, uint64_t to_byte, Space from, uint64_t from_byte, uint64_t bytes) {
  std::memcpy(core.memory(to) + to_byte, core.memory(from) + from_byte, bytes);
  std::memcpy(core.defined_map(to) + to_byte, core.defined_map(from) + from_byte, bytes);
}

// Where an Mmad met undefined operands, to explain an undefined result when Fixpipe finds it.
struct Taint {
  uint64_t begin, end;                     // bytes of L0C
  uint32_t row_pitch;                      // rows of a block of 16 columns
  std::vector<std::string> rows, columns;  // empty where the operand's row is defined
  Loc loc;
};

// L0C's unit flags, one a fractal of 1024 bytes. Set by Mmad (flag 3), cleared by Fixpipe (flag 3).
constexpr uint32_t kFractal = 1024;
constexpr uint32_t kFractals = 256;
struct CubeState : CoreExtension {
  std::array<bool, kFractals> full = {};
  std::array<int64_t, kFractals> token;  // of the instruction that last changed the flag; -1: none did
  Loc last_set;
  std::vector<Taint> taints;

  CubeState() { token.fill(-1); }
  void check_at_end(Core& core);
};
CubeState& state_of(Core& core);

// Waits until the flags of L0C bytes [begin, end) allow `pipe` (M: empty, FIX: full) to touch them.
void unit_flag_wait(Core& core, const char* api, Pipe pipe, const std::vector<Span>& spans, Loc loc);
// Turns the flags over: M fills, FIX empties.
void unit_flag_flip(Core& core, Pipe pipe, const std::vector<Span>& spans, Loc loc);

}  // namespace npu_lp::twin::cube
