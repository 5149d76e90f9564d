// Copies between GM and local memories, as the copy engine does them: rows with a pitch on either side.
#include "twin/data_copy.h"

#include <cstring>
#include <mutex>

#include "twin/text.h"

namespace npu_lp::twin {
namespace {

uint32_t round_up(uint32_t bytes) {
  return (bytes + 31) / 32 * 32;
}

// One turn of the loops of SetLoopModePara: byte offsets on both sides.
struct Turn {
  uint64_t gm, local;
};

std::vector<Turn> turns_of(const Copy& copy, const LoopMode& mode, bool in, Loc loc) {
  if (!copy.loops) return {{0, 0}};
  std::vector<Turn> turns;
  for (int i = 0; i < 2; ++i) {
    const uint64_t local = in ? mode.destination[i] : mode.source[i];
    if (mode.size[i] == 0 || (mode.size[i] > 1 && local % 32 != 0)) {
      this_core().fail(Check::kParameter, loc,
                       text("loop ", i + 1, " of SetLoopModePara has size ", mode.size[i], " and a UB stride of ",
                            local, " bytes; sizes start at 1, UB strides are multiples of 32"));
    }
  }
  for (uint32_t outer = 0; outer < mode.size[1]; ++outer) {
    for (uint32_t inner = 0; inner < mode.size[0]; ++inner) {
      const uint64_t source = outer * mode.source[1] + inner * mode.source[0];
      const uint64_t destination = outer * mode.destination[1] + inner * mode.destination[0];
      turns.push_back(in ? Turn{source, destination} : Turn{destination, source});
    }
  }
  return turns;
}

// What the copy touches in GM and in the local memory. `edge` bytes of a local row around its data are touched too.
void add_spans(const Copy& copy, const std::vector<Turn>& turns, uint32_t local_row, std::vector<Span>& gm,
               std::vector<Span>& local) {
  for (const Turn& turn : turns) {
    gm.push_back({Space::kGM, copy.gm + turn.gm, copy.row_bytes, copy.rows, copy.gm_pitch});
    if (copy.compact) {
      const uint32_t bytes = copy.rows * copy.row_bytes;
      local.push_back({copy.space, copy.local + turn.local, local_row == 0 ? bytes : round_up(bytes)});
    } else {
      local.push_back({copy.space, copy.local + turn.local, local_row == 0 ? copy.row_bytes : local_row, copy.rows,
                       copy.local_pitch});
    }
  }
}

void check_copy(const Copy& copy, const std::vector<Span>& gm, const std::vector<Span>& local, Loc loc) {
  Core& core = this_core();
  if (copy.local % 32 != 0) {
    core.fail(
        Check::kAlignment, loc,
        text(copy.what, " at byte ", copy.local, " of ", space_name(copy.space), "; copies start at multiples of 32"));
  }
  for (const Span& span : gm) {
    if (end_of(span) > copy.gm_end && core.options().strict_tensor_sizes) {
      core.fail(Check::kBounds, loc,
                text(copy.what, " ends ", end_of(span) - copy.gm_end, " bytes past the end of the GlobalTensor"));
    }
    core.check_bounds(span, loc, copy.what);
  }
  for (const Span& span : local) {
    if (end_of(span) > copy.local_end && core.options().strict_tensor_sizes) {
      core.fail(Check::kBounds, loc,
                text(copy.what, " needs ", end_of(span) - copy.local, " bytes of a tensor in ", space_name(copy.space),
                     " that has ", copy.local_end - copy.local));
    }
    core.check_bounds(span, loc, copy.what);
  }
}

Record record_of(const Copy& copy, size_t turns, bool in, Loc loc) {
  Record record;
  record.op = in ? Op::kCopyIn : Op::kCopyOut;
  record.pipe = in ? Pipe::kMTE2 : Pipe::kMTE3;
  record.gm = copy.gm;
  record.pitch = copy.gm_pitch;
  record.rows = static_cast<uint32_t>(copy.rows * turns);
  record.row_bytes = copy.row_bytes;
  record.bytes = record.rows * record.row_bytes;
  record.loc = loc;
  return record;
}

void fill(uint8_t* at, uint64_t bytes, uint64_t value, uint32_t element) {
  for (uint64_t i = 0; i < bytes; ++i) at[i] = static_cast<uint8_t>(value >> 8 * (i % element));
}

// The left padding, the data, and what follows up to `slack` bytes behind the right padding.
void row_in(Core& core, const Copy& copy, uint64_t gm, uint64_t local, uint32_t slack) {
  uint8_t* memory = core.memory(copy.space);
  const uint64_t data = local + copy.left;
  const uint64_t behind = data + copy.row_bytes;
  std::memcpy(memory + data, reinterpret_cast<const void*>(gm), copy.row_bytes);
  core.define({copy.space, data, copy.row_bytes});
  if (copy.left != 0) {
    if (copy.pad) fill(memory + local, copy.left, copy.value, copy.element);
    core.define({copy.space, local, copy.left}, copy.pad);
  }
  if (copy.right != 0) {
    if (copy.pad) fill(memory + behind, copy.right, copy.value, copy.element);
    core.define({copy.space, behind, copy.right}, copy.pad);
  }
  if (slack != 0) {
    // The bytes up to the next block of 32. Without any padding the documentation promises copies of the row's first
    // element; a kernel that counts on them is more likely to be wrong, so they are undefined here.
    const bool known = copy.space == Space::kL1 || (copy.pad && copy.left + copy.right != 0);
    fill(memory + behind + copy.right, slack, known ? copy.value : UINT64_MAX, known ? copy.element : 1);
    core.define({copy.space, behind + copy.right, slack}, known);
  }
}

}  // namespace

void check_blocks(const char* what, uint64_t count, uint64_t length, uint64_t limit, const char* unit, Loc loc) {
  if (count <= 4095 && length <= limit) return;
  this_core().fail(Check::kParameter, loc,
                   text(what, " of blockCount ", count, ", blockLen ", length,
                        "; blockCount is 0 to 4095, blockLen 0 to ", limit, " ", unit));
}

uint64_t pitch_of(const char* what, uint64_t length, int64_t gap, int64_t lowest, int64_t highest, Loc loc) {
  if (gap < lowest || gap > highest) {
    this_core().fail(Check::kParameter, loc,
                     text(what, " with a stride of ", gap, "; it is ", lowest, " to ", highest));
  }
  return static_cast<uint64_t>(static_cast<int64_t>(length) + gap);
}

void copy_in(Copy copy, Loc loc) {
  Core& core = this_core();
  if (copy.left > 32 || copy.right > 32) {
    core.fail(Check::kParameter, loc,
              text(copy.what, " pads ", copy.left, " bytes on the left and ", copy.right,
                   " on the right; each is at most 32"));
  }
  if (copy.pad) {
    core.pad_value = copy.value;
  } else {
    copy.value = core.pad_value;
    copy.pad = core.pad_value_set;
  }
  if (copy.space != Space::kUB && copy.space != Space::kL1) {
    core.fail(Check::kParameter, loc,
              text(copy.what, " from GM to ", space_name(copy.space), "; GM is copied to UB or L1 only"));
  }
  if (copy.rows == 0 || copy.row_bytes == 0) return;
  const uint32_t used = copy.left + copy.row_bytes + copy.right;
  const uint32_t slack = copy.compact ? 0 : round_up(used) - used;
  const std::vector<Turn> turns = turns_of(copy, core.loop_in, true, loc);
  std::vector<Span> gm, local;
  add_spans(copy, turns, round_up(used), gm, local);
  check_copy(copy, gm, local, loc);
  core.issue(record_of(copy, turns.size(), true, loc), gm, local, [copy, turns, slack](Core& run) {
    for (const Turn& turn : turns) {
      for (uint32_t i = 0; i < copy.rows; ++i) {
        row_in(run, copy, copy.gm + turn.gm + i * copy.gm_pitch, copy.local + turn.local + i * copy.local_pitch, slack);
      }
      if (copy.compact) {
        const uint32_t bytes = copy.rows * copy.row_bytes;
        const Span tail{copy.space, copy.local + turn.local + bytes, round_up(bytes) - bytes};
        if (copy.pad) fill(run.memory(copy.space) + tail.begin, tail.len, copy.value, copy.element);
        run.define(tail, copy.pad);
      }
    }
  });
}

void copy_out(Copy copy, Loc loc) {
  Core& core = this_core();
  if (copy.space != Space::kUB) {
    core.fail(Check::kParameter, loc,
              text(copy.what, " from ", space_name(copy.space),
                   " to GM; only UB is copied to "
                   "GM, use Fixpipe for L0C"));
  }
  const AtomicType atomic = core.atomic_type();
  if (atomic != AtomicType::kNone && atomic != copy.type) {
    core.fail(Check::kType, loc,
              text(copy.what,
                   " with an atomic type other than the tensor's; SetAtomicAdd<T> with the "
                   "tensor's T, and SetAtomicNone after"));
  }
  if (copy.rows == 0 || copy.row_bytes == 0) return;
  const std::vector<Turn> turns = turns_of(copy, core.loop_out, false, loc);
  std::vector<Span> gm, local;
  add_spans(copy, turns, 0, gm, local);
  check_copy(copy, gm, local, loc);
  core.issue(record_of(copy, turns.size(), false, loc), local, gm, [copy, turns, atomic, loc](Core& run) {
    const uint8_t* memory = run.memory(copy.space);
    for (const Turn& turn : turns) {
      for (uint32_t i = 0; i < copy.rows; ++i) {
        const uint64_t local_row = copy.local + turn.local + i * copy.local_pitch;
        void* gm_row = reinterpret_cast<void*>(copy.gm + turn.gm + i * copy.gm_pitch);
        run.check_defined({copy.space, local_row, copy.row_bytes}, loc, copy.what);
        if (atomic == AtomicType::kNone) {
          std::memcpy(gm_row, memory + local_row, copy.row_bytes);
        } else {
          atomic_add(atomic, gm_row, memory + local_row, copy.row_bytes);
        }
      }
    }
  });
}

void duplicate(Space space, uint64_t begin, uint64_t count, uint32_t size, uint64_t bits, Loc loc) {
  Core& core = this_core();
  if (space != Space::kUB) core.fail(Check::kParameter, loc, text("Duplicate in ", space_name(space), "; it takes UB"));
  if (begin % 32 != 0)
    core.fail(Check::kAlignment, loc, text("Duplicate at byte ", begin, "; it starts at multiples of 32"));
  const Span span{space, begin, count * size};
  Record record;
  record.op = Op::kVector;
  record.pipe = Pipe::kV;
  record.bytes = static_cast<uint32_t>(span.len);
  record.vector.stores = record.vector.issued = static_cast<uint32_t>((span.len + 255) / 256);
  record.loc = loc;
  core.issue(record, {}, {span}, [span, bits, size](Core& run) {
    fill(run.memory(span.space) + span.begin, span.len, bits, size);
    run.define(span);
  });
}

// --- Atomic adds --------------------------------------------------------------------------------------------------

namespace {
template <typename T>
void add_all(void* destination, const void* source, uint64_t bytes) {
  for (uint64_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, static_cast<uint8_t*>(destination) + i, sizeof(T));
    std::memcpy(&b, static_cast<const uint8_t*>(source) + i, sizeof(T));
    const T sum = static_cast<T>(a + b);
    std::memcpy(static_cast<uint8_t*>(destination) + i, &sum, sizeof(T));
  }
}
}  // namespace

void atomic_add(AtomicType type, void* destination, const void* source, uint64_t bytes) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  switch (type) {
    case AtomicType::kFloat:
      return add_all<float>(destination, source, bytes);
    case AtomicType::kHalf:
      return add_all<half>(destination, source, bytes);
    case AtomicType::kBFloat16:
      return add_all<bfloat16_t>(destination, source, bytes);
    case AtomicType::kInt32:
      return add_all<int32_t>(destination, source, bytes);
    case AtomicType::kInt16:
      return add_all<int16_t>(destination, source, bytes);
    case AtomicType::kInt8:
      return add_all<int8_t>(destination, source, bytes);
    case AtomicType::kNone:
      return;
  }
}

}  // namespace npu_lp::twin
