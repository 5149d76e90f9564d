// Fixpipe: L0C -> GM, with a scale and a rounding on the way. Undefined results are reported here.
#include <algorithm>
#include <vector>

#include "formats/bits.h"
#include "twin/cube_detail.h"

namespace npu_lp::twin::cube {
namespace {

using AscendC::CO2Layout;

constexpr const char* kApi = "Fixpipe";
constexpr uint32_t kScaleMask = 0xFFFFE000u;  // sign, exponent and 10 bits of the fraction

bool scales(QuantMode_t quant) {
  return quant == QuantMode_t::QF322F16_PRE || quant == QuantMode_t::QF322BF16_PRE ||
         quant == QuantMode_t::QF322F32_PRE;
}

Elem result_of(QuantMode_t quant) {
  switch (quant) {
    case QuantMode_t::F322F16:
    case QuantMode_t::QF322F16_PRE:
      return Elem::kHalf;
    case QuantMode_t::F322BF16:
    case QuantMode_t::QF322BF16_PRE:
      return Elem::kBFloat16;
    default:
      return Elem::kFloat;
  }
}

// How values leave L0C.
struct Job {
  FixpipeArgs args;
  Elem elem;
  uint64_t src;  // byte of L0C
  uint64_t dst;  // host address
  bool scaled;
  AtomicType atomic;
  float scale;
  Loc loc;

  uint64_t cell(uint32_t row, uint32_t column) const {
    return src + ((uint64_t{column / 16} * args.src_stride + uint64_t{row} * args.row_stride) * 16 + column % 16) * 4;
  }
};

void check_args(Core& core, const FixpipeArgs& args, Elem elem, Loc loc) {
  const bool rows = args.layout == CO2Layout::ROW_MAJOR;
  require(core, args.plain && args.matrices == 1, Check::kParameter, loc, kApi,
          ": ReLU, channel split, dual destinations and more than one matrix are not modelled by the twin");
  require_range(core, kApi, "nSize", args.n, 0, 4095, loc);
  require_range(core, kApi, "mSize", args.m, 0, args.layout == CO2Layout::COLUMN_MAJOR ? 32767 : 65535, loc);
  require(core, args.layout != CO2Layout::NZ || args.n % 16 == 0, Check::kParameter, loc, kApi, ": nSize = ", args.n,
          " must be a multiple of 16 for the NZ layout");
  require(core, args.unit_flag == 0 || args.unit_flag == 2 || args.unit_flag == 3, Check::kParameter, loc, kApi,
          ": unitFlag = ", +args.unit_flag, "; it is 0 (off), 2 (keep) or 3 (hand over to the next Mmad)");
  require(core, args.n <= 16 || args.src_stride >= args.m, Check::kParameter, loc, kApi,
          ": srcStride = ", args.src_stride, " is less than mSize = ", args.m,
          "; it is the pitch of blocks of 16 columns, align16(m)");
  require(core, args.row_stride != 0, Check::kParameter, loc, kApi,
          ": params.srcNzC0Stride is 0: every row would be row 0. Set it to 1");
  const uint64_t least = rows ? args.n : args.layout == CO2Layout::NZ ? uint64_t{args.m} * 16 : args.m;
  const uint32_t lines = rows ? args.m : args.layout == CO2Layout::NZ ? args.n / 16 : args.n;
  require(core, args.dst_stride != 0 && (lines <= 1 || args.dst_stride >= least), Check::kParameter, loc, kApi,
          ": dstStride = ", args.dst_stride, " elements, but each line has ", least);
  require(core, result_of(args.quant) == elem, Check::kParameter, loc, kApi, ": quantPre gives ",
          bits_of(result_of(args.quant)) == 32   ? "float (NoQuant, QF322F32_PRE)"
          : result_of(args.quant) == Elem::kHalf ? "half (F322F16, QF322F16_PRE)"
                                                 : "bfloat16_t (F322BF16, QF322BF16_PRE)",
          ", the destination is another type");
  require(core, !scales(args.quant) || args.scale != AscendC::kScalarNeverSet, Check::kPoison, loc, kApi,
          ": deqScalar was never set, and quantPre multiplies by it. It holds the bits of an fp32 scale");
}

// The lines of GM: rows, columns or blocks of 16 columns.
Span written(const Job& job) {
  const FixpipeArgs& args = job.args;
  const uint64_t size = bits_of(job.elem) / 8;
  const uint64_t pitch = args.dst_stride * size;
  switch (args.layout) {
    case CO2Layout::ROW_MAJOR:
      return {Space::kGM, job.dst, args.n * size, args.m, pitch};
    case CO2Layout::COLUMN_MAJOR:
      return {Space::kGM, job.dst, args.m * size, args.n, pitch};
    default:
      return {Space::kGM, job.dst, uint64_t{args.m} * 16 * size, args.n / 16, pitch};
  }
}

[[noreturn]] void fail_undefined(Core& core, const Job& job, uint32_t row, uint32_t column) {
  const uint64_t byte = job.cell(row, column);
  std::string why = "no Mmad wrote it";
  const std::vector<Taint>& taints = state_of(core).taints;
  for (auto taint = taints.rbegin(); taint != taints.rend(); ++taint) {
    if (byte < taint->begin || byte >= taint->end) continue;
    const uint64_t element = (byte - taint->begin) / 4;
    const uint64_t c_row = element / 16 % taint->row_pitch;
    const uint64_t c_column = element / 16 / taint->row_pitch * 16 + element % 16;
    const std::string* reason = nullptr;
    if (c_row < taint->rows.size() && !taint->rows[c_row].empty()) reason = &taint->rows[c_row];
    if (c_column < taint->columns.size() && !taint->columns[c_column].empty()) reason = &taint->columns[c_column];
    if (reason == nullptr) continue;
    why = text(*reason, " in the Mmad of line ", taint->loc.line);
    break;
  }
  core.fail(Check::kPoison, job.loc,
            text(kApi, " writes row ", row, ", column ", column, " (L0C byte ", byte, "), which is undefined: ", why));
}

void check_results(Core& core, const Job& job) {
  const uint8_t* map = core.defined_map(Space::kL0C);
  for (uint32_t column = 0; column < job.args.n; column += 16) {
    const uint32_t columns = std::min(16u, job.args.n - column);
    for (uint32_t row = 0; row < job.args.m; ++row) {
      if (all_defined(map + job.cell(row, column), columns * 4)) continue;
      for (uint32_t i = 0; i < columns; ++i) {
        if (!all_defined(map + job.cell(row, column + i), 4)) fail_undefined(core, job, row, column + i);
      }
    }
  }
}

uint32_t narrow(Elem elem, float value) {
  if (elem == Elem::kFloat) return npu_lp::bits_of(canonical(value));
  return elem == Elem::kHalf ? narrow_fp16(value) : narrow_bf16(value);
}

template <typename Word>
void write_results(Core& core, const Job& job) {
  const uint8_t* l0c = core.memory(Space::kL0C);
  const Span lines = written(job);
  std::vector<Word> line(lines.len / sizeof(Word));
  for (uint32_t i = 0; i < lines.count; ++i) {
    for (uint32_t j = 0; j < line.size(); ++j) {
      uint64_t cell;
      switch (job.args.layout) {
        case CO2Layout::ROW_MAJOR:
          cell = job.cell(i, j);
          break;
        case CO2Layout::COLUMN_MAJOR:
          cell = job.cell(j, i);
          break;
        default:
          cell = job.cell(j / 16, i * 16 + j % 16);
      }
      float value;
      std::memcpy(&value, l0c + cell, sizeof value);
      if (job.scaled) value *= job.scale;  // one rounding to fp32, then one to the type of the result
      line[j] = static_cast<Word>(narrow(job.elem, value));
    }
    void* to = reinterpret_cast<void*>(lines.begin + i * lines.pitch);
    if (job.atomic == AtomicType::kNone) {
      std::memcpy(to, line.data(), lines.len);
    } else {
      atomic_add(job.atomic, to, line.data(), lines.len);
    }
  }
}

AtomicType atomic_of(Elem elem) {
  return elem == Elem::kFloat ? AtomicType::kFloat : elem == Elem::kHalf ? AtomicType::kHalf : AtomicType::kBFloat16;
}

}  // namespace

void fixpipe(Region dst, Elem dst_elem, Region src, const FixpipeArgs& args, Loc loc) {
  Core& core = this_core();
  require_cube_core(core, kApi, loc);
  require_space(core, kApi, "the source", src, src.space == Space::kL0C, "L0C (TPosition CO1)", loc);
  require_aligned(core, kApi, "the source", src, 64, loc);
  check_args(core, args, dst_elem, loc);
  if (args.n == 0 || args.m == 0) return;

  Job job = {args, dst_elem, src.begin, dst.begin, scales(args.quant), core.atomic_type(), 0.0f, loc};
  job.scale = float_of(static_cast<uint32_t>(args.scale) & kScaleMask);
  const uint32_t size = bits_of(dst_elem) / 8;
  require(core, args.layout == CO2Layout::ROW_MAJOR || dst.begin % 32 == 0, Check::kAlignment, loc, kApi,
          ": the destination of the NZ and COLUMN_MAJOR layouts must start at a multiple of 32 bytes");
  const bool adds = job.atomic != AtomicType::kNone;
  require(core, !adds || job.atomic == atomic_of(dst_elem), Check::kType, loc, kApi,
          ": SetAtomicAdd was given another type than the destination's");
  require(core, !adds || dst.begin % size == 0, Check::kAlignment, loc, kApi,
          ": an atomic add needs elements at multiples of their size");

  const uint32_t blocks = static_cast<uint32_t>(align_up(args.n, 16) / 16);
  const Span read = {Space::kL0C, src.begin, (uint64_t{args.m - 1} * args.row_stride + 1) * 64, blocks,
                     uint64_t{args.src_stride} * 64};
  const Span write = written(job);
  check_region(core, kApi, "the source", src, read, loc);
  check_region(core, kApi, "the destination", dst, write, loc);

  Record record;
  record.op = Op::kFixpipe;
  record.pipe = Pipe::kFIX;
  record.unit_flag = args.unit_flag;
  record.gm = write.begin;
  record.rows = write.count;
  record.row_bytes = static_cast<uint32_t>(write.len);
  record.pitch = write.pitch;
  record.bytes = args.m * args.n * 4;
  record.m = static_cast<uint16_t>(args.m);
  record.n = static_cast<uint16_t>(args.n);
  record.l0c = static_cast<uint32_t>(src.begin);
  record.loc = loc;
  if (args.unit_flag != 0) unit_flag_wait(core, kApi, Pipe::kFIX, {read}, loc);
  core.issue(record, {read}, {write}, [job](Core& core) {
    check_results(core, job);
    if (job.elem == Elem::kFloat) {
      write_results<uint32_t>(core, job);
    } else {
      write_results<uint16_t>(core, job);
    }
  });
  if (args.unit_flag == 3) unit_flag_flip(core, Pipe::kFIX, {read}, loc);
}

}  // namespace npu_lp::twin::cube
