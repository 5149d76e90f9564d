// Mmad and MmadMx: checks, order, and which results are undefined because an operand was.
#include <algorithm>
#include <optional>

#include "twin/cube_detail.h"
#include "twin/cube_gemm.h"

namespace npu_lp::twin::cube {
namespace {

constexpr size_t kKeptTaints = 16;

// One Mmad as its closure needs it.
struct Job {
  Region a, b, c;
  Elem a_elem, b_elem;
  uint32_t m, n, k;
  bool mx;
  Start start;
  uint64_t bias;
  Loc loc;

  uint32_t padded_m() const { return static_cast<uint32_t>(align_up(m, 16)); }
  uint32_t padded_n() const { return static_cast<uint32_t>(align_up(n, 16)); }
};

uint64_t data_bytes(uint32_t rows, uint32_t k, Elem elem) {
  return align_up(rows, 16) * align_up(uint64_t{k} * bits_of(elem), 256) / 8;
}

uint64_t scale_bytes(uint32_t rows, uint32_t k) {
  return align_up(rows, 16) * (k / 32);
}

void check_params(Core& core, const char* api, const Job& job, const AscendC::MmadParams& params, bool bias, Loc loc) {
  require_range(core, api, "m", params.m, 0, 4095, loc);
  require_range(core, api, "n", params.n, 0, 4095, loc);
  require_range(core, api, "k", params.k, 0, 4095, loc);
  require(core, params.unitFlag == 0 || params.unitFlag == 2 || params.unitFlag == 3, Check::kParameter, loc, api,
          ": unitFlag = ", +params.unitFlag, "; it is 0 (off), 2 (keep) or 3 (hand over to Fixpipe)");
  require(core, !job.mx || params.k % 64 == 0, Check::kParameter, loc, api, ": k = ", params.k,
          " is not a multiple of 64. Round k up and fill the rest of K in L1 with zeros (Fill)");
  require(core, params.m != 1 || params.disableGemv, Check::kParameter, loc, api,
          ": m == 1 selects GEMV, which reads A as one plain row. Set disableGemv = true");
  require(core, !params.enSsparse && !params.enWinogradA && !params.enWinogradB && params.fmOffset == 0,
          Check::kParameter, loc, api, ": fmOffset, enSsparse and enWinograd belong to older chips; leave them 0");
  require(core, !bias || !params.cmatrixInitVal || params.isBias, Check::kParameter, loc, api,
          ": cmatrixInitVal = true (the default) starts C from zero and drops the bias tensor. Set it to false");
}

void check_tensors(Core& core, const char* api, const Job& job, Loc loc) {
  require_space(core, api, "C", job.c, job.c.space == Space::kL0C, "L0C (TPosition CO1)", loc);
  require_space(core, api, "A", job.a, job.a.space == Space::kL0A, "L0A (TPosition A2)", loc);
  require_space(core, api, "B", job.b, job.b.space == Space::kL0B, "L0B (TPosition B2)", loc);
  const uint32_t alignment = job.mx && bits_of(job.a_elem) == 8 ? 1024 : 512;
  require_aligned(core, api, "C", job.c, 1024, loc);
  require_aligned(core, api, "A", job.a, alignment, loc);
  require_aligned(core, api, "B", job.b, alignment, loc);
}

// For every row of an operand, where its first undefined element is; empty: the whole operand is defined.
std::vector<std::string> undefined_rows(Core& core, const Region& data, Space scales, const char* name, Elem elem,
                                        uint32_t rows, uint32_t k, bool mx) {
  const uint8_t* map = core.defined_map(data.space) + data.begin;
  const uint8_t* scale_map = mx ? core.defined_map(scales) + data.begin / 16 : nullptr;
  if (all_defined(map, data_bytes(rows, k, elem)) && (!mx || all_defined(scale_map, scale_bytes(rows, k)))) return {};
  std::vector<std::string> found(rows);
  bool any = false;
  const uint32_t padded = static_cast<uint32_t>(align_up(rows, 16));
  const uint32_t per_block = 256 / bits_of(elem);
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t first = 0; first < k && found[row].empty(); first += per_block) {
      const uint64_t at = (uint64_t{first / per_block} * padded + row) * 32;
      const uint32_t bytes = (std::min(per_block, k - first) * bits_of(elem) + 7) / 8;
      const void* hole = std::memchr(map + at, 0, bytes);
      if (hole == nullptr) continue;
      const uint64_t byte = static_cast<const uint8_t*>(hole) - (map + at);
      found[row] = text(name, " ", row, " is undefined from k = ", first + byte * 8 / bits_of(elem), " (",
                        space_name(data.space), " byte ", data.begin + at + byte, ")");
    }
    for (uint32_t block = 0; mx && block < k / 32 && found[row].empty(); ++block) {
      const uint64_t at = uint64_t{row / 16} * (k / 64) * 32 + block / 2 * 32 + row % 16 * 2 + block % 2;
      if (scale_map[at] == 0) {
        found[row] = text("the scale of ", name, " ", row, " for k = ", block * 32, " is undefined (",
                          space_name(scales), " byte ", data.begin / 16 + at, ")");
      }
    }
    any |= !found[row].empty();
  }
  if (!any) found.clear();
  return found;
}

// Marks C: defined where all that it was computed from was. Rows and columns of the last fractals that are not part of
// the product hold nothing to rely on.
void mark_results(Core& core, const Job& job) {
  Taint taint;
  taint.rows = undefined_rows(core, job.a, Space::kL0AMX, "A row", job.a_elem, job.m, job.k, job.mx);
  taint.columns = undefined_rows(core, job.b, Space::kL0BMX, "B column", job.b_elem, job.n, job.k, job.mx);
  uint8_t* map = core.defined_map(Space::kL0C) + job.c.begin;
  const uint8_t* bias_map = job.start == Start::kBias ? core.defined_map(Space::kBT) + job.bias : nullptr;
  const uint32_t m = job.padded_m(), n = job.padded_n();
  const Span c = {Space::kL0C, job.c.begin, uint64_t{m} * n * 4};
  const bool whole = m == job.m && n == job.n && taint.rows.empty() && taint.columns.empty();
  if (whole && (bias_map == nullptr || all_defined(bias_map, n * 4)) &&
      (job.start != Start::kC || all_defined(map, c.len))) {
    core.define(c);
    return;
  }
  const std::vector<uint8_t> before(map, map + c.len);
  core.define(c, false);
  for (uint32_t column = 0; column < n; ++column) {
    const bool column_ok = column < job.n && (taint.columns.empty() || taint.columns[column].empty()) &&
                           (bias_map == nullptr || all_defined(bias_map + column * 4, 4));
    for (uint32_t row = 0; row < m; ++row) {
      const uint64_t cell = ((uint64_t{column / 16} * m + row) * 16 + column % 16) * 4;
      const bool ok = column_ok && row < job.m && (taint.rows.empty() || taint.rows[row].empty()) &&
                      (job.start != Start::kC || all_defined(before.data() + cell, 4));
      std::memset(map + cell, ok, 4);
    }
  }
  if (taint.rows.empty() && taint.columns.empty()) return;
  taint.begin = job.c.begin;
  taint.end = job.c.begin + c.len;
  taint.row_pitch = m;
  taint.loc = job.loc;
  std::vector<Taint>& taints = state_of(core).taints;
  if (taints.size() == kKeptTaints) taints.erase(taints.begin());
  taints.push_back(std::move(taint));
}

void run(Core& core, const Job& job) {
  const auto scales = [&](const Region& data, Space space) {
    return job.mx ? core.memory(space) + data.begin / 16 : nullptr;
  };
  const Operand a = {core.memory(Space::kL0A) + job.a.begin, scales(job.a, Space::kL0AMX), job.a_elem, job.m};
  const Operand b = {core.memory(Space::kL0B) + job.b.begin, scales(job.b, Space::kL0BMX), job.b_elem, job.n};
  const float* bias = reinterpret_cast<const float*>(core.memory(Space::kBT) + job.bias);
  multiply(a, b, job.k, job.start, bias, reinterpret_cast<float*>(core.memory(Space::kL0C) + job.c.begin));
  mark_results(core, job);
}

}  // namespace

void mmad(Region c, Region a, Elem a_elem, Region b, Elem b_elem, const Region* bias, bool mx,
          const AscendC::MmadParams& params, Loc loc) {
  Core& core = this_core();
  const char* api = mx ? "MmadMx" : "Mmad";
  require_cube_core(core, api, loc);
  Job job = {a, b, c, a_elem, b_elem, params.m, params.n, params.k, mx, Start::kC, 0, loc};
  check_params(core, api, job, params, bias != nullptr, loc);
  check_tensors(core, api, job, loc);
  if (params.m == 0 || params.n == 0 || params.k == 0) return;

  // cmatrixInitVal wins; then a bias tensor, or without one cmatrixSource, which reads the table from byte 0.
  if (params.cmatrixInitVal && !params.isBias) {
    job.start = Start::kZero;
  } else if (bias != nullptr || params.cmatrixSource) {
    job.start = Start::kBias;
  }
  std::vector<Span> reads = {{Space::kL0A, a.begin, data_bytes(job.m, job.k, a_elem)},
                             {Space::kL0B, b.begin, data_bytes(job.n, job.k, b_elem)}};
  check_region(core, api, "A", a, reads[0], loc);
  check_region(core, api, "B", b, reads[1], loc);
  const Span write = {Space::kL0C, c.begin, uint64_t{job.padded_m()} * job.padded_n() * 4};
  check_region(core, api, "C", c, write, loc);
  if (mx) {
    reads.push_back({Space::kL0AMX, a.begin / 16, scale_bytes(job.m, job.k)});
    reads.push_back({Space::kL0BMX, b.begin / 16, scale_bytes(job.n, job.k)});
    core.check_bounds(reads[2], loc, "the scales of A (at L0A address / 16)");
    core.check_bounds(reads[3], loc, "the scales of B (at L0B address / 16)");
  }
  if (job.start == Start::kC) reads.push_back(write);
  if (job.start == Start::kBias) {
    const Region table = bias != nullptr ? *bias : Region{Space::kBT, 0, capacity(Space::kBT)};
    require_space(core, api, "the bias", table, table.space == Space::kBT, "the bias table (TPosition C2)", loc);
    require_aligned(core, api, "the bias", table, 64, loc);
    reads.push_back({Space::kBT, table.begin, uint64_t{job.n} * 4});
    check_region(core, api, "the bias", table, reads.back(), loc);
    job.bias = table.begin;
  }

  Record record;
  record.op = Op::kMmad;
  record.pipe = Pipe::kM;
  record.unit_flag = params.unitFlag;
  record.c0_shift = static_cast<uint8_t>(bits_of(a_elem) == 16 ? 4 : bits_of(a_elem) == 8 ? 5 : 6);
  record.m = params.m;
  record.n = params.n;
  record.k = params.k;
  record.l0c = static_cast<uint32_t>(c.begin);
  record.bytes = static_cast<uint32_t>(write.len);
  record.loc = loc;
  if (params.unitFlag != 0) unit_flag_wait(core, api, Pipe::kM, {write}, loc);
  core.issue(record, reads, std::vector<Span>{write}, [job](Core& core) { run(core, job); });
  if (params.unitFlag == 3) unit_flag_flip(core, Pipe::kM, {write}, loc);
}

}  // namespace npu_lp::twin::cube
