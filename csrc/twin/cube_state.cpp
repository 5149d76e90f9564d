#include <algorithm>

#include "twin/cube_detail.h"

namespace npu_lp::twin::cube {
namespace {

template <typename F>
void for_fractals(const std::vector<Span>& spans, F&& f) {
  for (const Span& span : spans) {
    for (uint32_t i = 0; i < span.count; ++i) {
      const uint64_t begin = span.begin + i * span.pitch;
      const uint64_t end = std::min<uint64_t>(align_up(begin + span.len, kFractal) / kFractal, kFractals);
      for (uint64_t fractal = begin / kFractal; fractal < end; ++fractal) f(static_cast<uint32_t>(fractal));
    }
  }
}

}  // namespace

CubeState& state_of(Core& core) {
  if (!core.extension) {
    core.extension = std::make_unique<CubeState>();
    core.at_finish([](Core& core) { state_of(core).check_at_end(core); });
  }
  return static_cast<CubeState&>(*core.extension);
}

void CubeState::check_at_end(Core& core) {
  const bool left = std::any_of(full.begin(), full.end(), [](bool flag) { return flag; });
  require(core, !left, Check::kFlag, last_set,
          "unit flags of L0C are left set at the end of the kernel: the last Mmad with unitFlag 3 needs a Fixpipe with "
          "unitFlag 3 over the same rows and columns");
}

void unit_flag_wait(Core& core, const char* api, Pipe pipe, const std::vector<Span>& spans, Loc loc) {
  CubeState& state = state_of(core);
  const bool wanted = pipe == Pipe::kFIX;
  std::vector<int64_t> tokens;
  for_fractals(spans, [&](uint32_t fractal) {
    require(core, state.full[fractal] == wanted, Check::kFlag, loc, api,
            " waits for ever for the unit flag of L0C byte ", fractal * kFractal, ": ",
            wanted ? "no Mmad with unitFlag 3 wrote it since it was last read"
                   : "no Fixpipe with unitFlag 3 read it since the last Mmad with unitFlag 3");
    const int64_t token = state.token[fractal];
    if (token >= 0 && std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
  });
  for (int64_t token : tokens) core.acquire(pipe, static_cast<uint32_t>(token), loc);
}

void unit_flag_flip(Core& core, Pipe pipe, const std::vector<Span>& spans, Loc loc) {
  CubeState& state = state_of(core);
  const uint32_t token = core.release(pipe, loc);
  for_fractals(spans, [&](uint32_t fractal) {
    state.full[fractal] = pipe == Pipe::kM;
    state.token[fractal] = token;
  });
  state.last_set = loc;
}

}  // namespace npu_lp::twin::cube
