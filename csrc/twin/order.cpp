// What happens before what: a vector clock for each pipe, the accesses that must respect them, and the flags, barriers
// and hand-overs that advance them.
#include <algorithm>

#include "twin/state.h"
#include "twin/text.h"

namespace npu_lp::twin {
namespace {

int number(Pipe pipe) {
  return static_cast<int>(pipe);
}

// The slot of Cell::read: in every memory the pipes that read it have different ones.
int reader_slot(Pipe pipe) {
  switch (pipe) {
    case Pipe::kV:
    case Pipe::kM:
      return 0;
    case Pipe::kMTE1:
    case Pipe::kMTE2:
    case Pipe::kMTE3:
      return 1;
    default:
      return 2;
  }
}

constexpr uint32_t kSmallMmad = 10;  // 16 x 16 blocks of a product from which the cube orders products by itself

uint32_t blocks_of(uint32_t size) {
  return (size + 15) / 16;
}

void merge(Clock& into, const Clock& other) {
  for (int q = 0; q < kPipes; ++q) into[q] = std::max(into[q], other[q]);
}

}  // namespace

bool has_pipe(CoreKind kind, Pipe pipe) {
  switch (pipe) {
    case Pipe::kS:
    case Pipe::kMTE2:
      return true;
    case Pipe::kV:
    case Pipe::kMTE3:
      return kind == CoreKind::kVector;
    default:
      return kind == CoreKind::kCube;
  }
}

std::string order_between(Pipe before, Pipe now) {
  return before == now ? text("put PipeBarrier<PIPE_", pipe_name(now), "> or a flag between them")
                       : text("set a flag from ", pipe_name(before), " to ", pipe_name(now), " between them");
}

void Core::State::push_record(const Record& record) {
  if (!options.record) {
    scratch = record;
    return;
  }
  records.push_back(record);
  current_record = records.size() - 1;
}

Record& Core::last_record() {
  return state_->options.record ? state_->records[state_->current_record] : state_->scratch;
}

bool Core::begin_instruction(const Record& record) {
  State& s = *state_;
  if (!has_pipe(s.kind, record.pipe)) {
    fail(Check::kParameter, record.loc,
         text("an instruction for pipe ", pipe_name(record.pipe), " on a ",
              s.kind == CoreKind::kVector ? "vector" : "cube", " core, which has no such pipe"));
  }
  s.push_record(record);
  if (s.timing() || (s.shuffled() && record.pipe != Pipe::kS)) return false;
  const int p = number(record.pipe);
  s.op = record.op;
  s.small_mmad =
      record.op == Op::kMmad && record.unit_flag == 0 && blocks_of(record.m) * blocks_of(record.n) < kSmallMmad;
  s.serial = s.memories->next_serial++;
  s.instructions.push_back({record.pipe, ++s.count[p], record.loc});
  return true;
}

void Core::end_instruction() {
  // Its spans were noted as accesses came in.
}

void Core::access(const Span& span, bool write, Loc loc) {
  State& s = *state_;
  if (span.len == 0 || span.count == 0) return;
  if (s.shuffled()) {
    if (write && span.space != Space::kGM) s.note_touched(span);
    return;
  }
  if (s.timing()) return;
  if (span.space != Space::kGM) {
    s.access_local(*this, span, write, loc);
    return;
  }
  const State::Instruction& now = s.instructions.back();
  GmAccess access;
  access.span = span;
  access.block = s.block;
  access.pipe = now.pipe;
  access.write = write;
  access.atomic = write && s.atomic != AtomicType::kNone;
  access.index = now.index;
  access.serial = s.serial;
  access.known = s.known[number(now.pipe)];
  access.loc = loc;
  s.gm_log.push_back(access);
}

void Core::State::access_local(Core& core, const Span& span, bool write, Loc loc) {
  if (write) note_touched(span);
  // Rows that share or adjoin cells are one piece: cells do not tell them apart.
  if (span.count > 1 && span.pitch < span.len + kCellBytes) {
    access_cells(core, span.space, span.begin, end_of(span), write, loc);
    return;
  }
  for (uint32_t i = 0; i < span.count; ++i) {
    const uint64_t begin = span.begin + i * span.pitch;
    access_cells(core, span.space, begin, begin + span.len, write, loc);
  }
}

void Core::State::access_cells(Core& core, Space space, uint64_t begin, uint64_t end, bool write, Loc loc) {
  const Instruction now = instructions.back();
  const Clock& mine = known[number(now.pipe)];
  uint32_t checked = serial;  // the newest serial that is known to be in order
  const auto check = [&](uint32_t other, bool other_writes, uint64_t cell) {
    if (other < first_serial || other == checked || other == serial) return;
    const Instruction& before = instructions[other - first_serial];
    const bool same = before.pipe == now.pipe && completes_in_order(now.pipe);
    if (same || before.index <= mine[number(before.pipe)]) {
      checked = other;
      return;
    }
    core.fail(Check::kRace, loc,
              text(pipe_name(now.pipe), write ? " writes" : " reads", " bytes ", std::max(begin, cell * kCellBytes),
                   " to ", std::min(end, (cell + 1) * kCellBytes), " of ", space_name(space), " while ",
                   pipe_name(before.pipe), other_writes ? " may still write them" : " may still read them", " (",
                   before.loc, "); ", order_between(before.pipe, now.pipe)));
  };
  if (op == Op::kMmad && space == Space::kL0C) check_small_mmad(core, begin, end, loc);
  Cell* cells = memories->area(space).cells;
  const int slot = reader_slot(now.pipe);
  for (uint64_t i = begin / kCellBytes; i * kCellBytes < end; ++i) {
    Cell& cell = cells[i];
    check(cell.write, true, i);
    if (write) {
      for (uint32_t reader : cell.read) check(reader, false, i);
      cell.write = serial;
      // This instruction's own reads stay noted; all others happened before, or were reported.
      for (uint32_t& reader : cell.read) reader = reader == serial ? serial : 0;
    } else {
      cell.read[slot] = serial;
    }
  }
  if (write && small_mmad && space == Space::kL0C) small_mmads.push_back({begin, end, now.index, loc});
}

// A small product has not left the cube's pipeline when the next one reads or writes the same part of L0C.
void Core::State::check_small_mmad(Core& core, uint64_t begin, uint64_t end, Loc loc) {
  const uint32_t barrier = known[number(Pipe::kM)][number(Pipe::kM)];
  const uint32_t now = instructions.back().index;
  std::erase_if(small_mmads, [&](const SmallMmad& product) { return product.index <= barrier; });
  for (const SmallMmad& product : small_mmads) {
    if (product.index == now || product.begin >= end || product.end <= begin) continue;
    core.fail(Check::kRace, loc,
              text("this Mmad uses bytes ", std::max(begin, product.begin), " to ", std::min(end, product.end),
                   " of L0C, which the Mmad at ", product.loc, " of fewer than ", kSmallMmad,
                   " 16 x 16 blocks may still write; put PipeBarrier<PIPE_M> between them"));
  }
}

// --- Hand-overs ---------------------------------------------------------------------------------------------------

uint32_t Core::State::new_sync(Pipe from) {
  const uint32_t sync = next_sync++;
  if (timing()) return sync;
  if (shuffled()) {
    done.resize(next_sync, false);
    if (from == Pipe::kS) {
      done[sync] = true;
    } else {
      Item item;
      item.kind = Item::kSet;
      item.sync = sync;
      queues[number(from)].push_back(std::move(item));
    }
    return sync;
  }
  tokens.resize(next_sync);
  tokens[sync] = known[number(from)];
  tokens[sync][number(from)] = count[number(from)];
  return sync;
}

void Core::State::learn(Pipe pipe, uint32_t sync) {
  merge(known[number(pipe)], tokens[sync]);
  if (pipe != Pipe::kS) return;
  // The scalar unit waits itself, so whatever it issues from now on comes after. Its own stores may be under way.
  Clock seen = known[number(Pipe::kS)];
  seen[number(Pipe::kS)] = 0;
  for (Clock& clock : known) merge(clock, seen);
}

uint32_t Core::release(Pipe from, Loc loc) {
  State& s = *state_;
  const uint32_t sync = s.new_sync(from);
  Record record;
  record.op = Op::kSet;
  record.pipe = from;
  record.sync = sync;
  record.loc = loc;
  s.push_record(record);
  return sync;
}

void Core::acquire(Pipe to, uint32_t token, Loc loc) {
  State& s = *state_;
  if (token == 0) return;
  Record record;
  record.op = Op::kWait;
  record.pipe = to;
  record.sync = token;
  record.loc = loc;
  s.push_record(record);
  if (s.timing()) return;
  if (!s.shuffled()) {
    s.learn(to, token);
  } else if (to == Pipe::kS) {
    s.run_until(*this, token);
  } else {
    State::Item item;
    item.kind = State::Item::kWait;
    item.sync = token;
    item.loc = loc;
    s.queues[number(to)].push_back(std::move(item));
  }
}

namespace {
std::string event_name(Pipe from, Pipe to) {
  return text(pipe_name(from), " -> ", pipe_name(to));
}
}  // namespace

void Core::set_flag(Pipe from, Pipe to, int id, Loc loc) {
  State& s = *state_;
  check_flag(from, to, id, loc);
  State::Flag& flag = s.flags[number(from)][number(to)][id];
  if (flag.set) {
    fail(Check::kFlag, loc,
         text("flag ", id, " of ", event_name(from, to), " is set a second time before a wait; first at ", flag.loc));
  }
  flag = {true, release(from, loc), loc};
}

void Core::wait_flag(Pipe from, Pipe to, int id, Loc loc) {
  State& s = *state_;
  check_flag(from, to, id, loc);
  State::Flag& flag = s.flags[number(from)][number(to)][id];
  if (!flag.set) {
    fail(Check::kFlag, loc,
         text("waits for flag ", id, " of ", event_name(from, to), ", which is not set: on the device ", pipe_name(to),
              " would wait for ever"));
  }
  flag.set = false;
  acquire(to, flag.sync, loc);
}

void Core::check_flag(Pipe from, Pipe to, int id, Loc loc) {
  for (Pipe pipe : {from, to}) {
    if (has_pipe(kind(), pipe)) continue;
    fail(Check::kParameter, loc,
         text("a flag of ", event_name(from, to), " on a ", kind() == CoreKind::kVector ? "vector" : "cube",
              " core, which has no pipe ", pipe_name(pipe)));
  }
  if (id >= 0 && id < kFirstReservedId) return;
  const bool reserved = id >= 0 && id < kIds;
  fail(Check::kFlag, loc,
       text("flag id ", id, reserved ? " is reserved for the system" : " does not exist", "; use 0 to ",
            kFirstReservedId - 1));
}

void Core::barrier(Pipe pipe, Loc loc) {
  State& s = *state_;
  if (!has_pipe(s.kind, pipe)) return;  // as the headers do: no instruction
  Record record;
  record.op = Op::kBarrier;
  record.pipe = pipe;
  record.loc = loc;
  s.push_record(record);
  if (s.timing()) return;
  if (s.shuffled()) {
    State::Item item;
    item.kind = State::Item::kBarrier;
    s.queues[number(pipe)].push_back(std::move(item));
    return;
  }
  s.known[number(pipe)][number(pipe)] = s.count[number(pipe)];
}

void Core::barrier_all(Loc loc) {
  State& s = *state_;
  Record record;
  record.op = Op::kBarrier;
  record.pipe = Pipe::kS;
  record.all = true;
  record.loc = loc;
  s.push_record(record);
  if (s.timing()) return;
  if (s.shuffled()) {
    s.run_all(*this);
    return;
  }
  for (Clock& clock : s.known) clock = s.count;
}

void Core::set_atomic(AtomicType type) {
  state_->atomic = type;
}

AtomicType Core::atomic_type() const {
  return state_->atomic;
}

void Core::scalar(const Span& span, bool write, Loc loc) {
  State& s = *state_;
  drain();
  Record record;
  record.op = Op::kScalar;
  record.pipe = Pipe::kS;
  record.loc = loc;
  record.gm = span.space == Space::kGM ? span.begin : 0;
  record.rows = 1;
  record.row_bytes = record.bytes = static_cast<uint32_t>(span.len);
  const bool recorded = span.space == Space::kGM;
  if (!recorded && s.timing()) return;
  const size_t last = s.current_record;
  if (!begin_instruction(record)) return;
  access(span, write, loc);
  end_instruction();
  if (!recorded && s.options.record) {
    s.records.pop_back();
    s.current_record = last;
  }
}

void Core::finish() {
  State& s = *state_;
  drain();
  for (int from = 0; from < kPipes; ++from) {
    for (int to = 0; to < kPipes; ++to) {
      for (int id = 0; id < kIds; ++id) {
        const State::Flag& flag = s.flags[from][to][id];
        if (!flag.set) continue;
        fail(Check::kFlag, flag.loc,
             text("flag ", id, " of ", event_name(static_cast<Pipe>(from), static_cast<Pipe>(to)),
                  " is still set when the kernel ends; wait for it"));
      }
    }
  }
  for (const std::function<void(Core&)>& check : s.checks_at_end) check(*this);
}

}  // namespace npu_lp::twin
