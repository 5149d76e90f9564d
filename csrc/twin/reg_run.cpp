#include "twin/reg_run.h"

#include <algorithm>
#include <array>
#include <memory>

#include "twin/text.h"

namespace npu_lp::twin {

namespace {

// Which bytes of UB were stored since the last barrier: for each 32 bytes, the barrier's number and a bit a byte.
// Nothing has to be cleared between calls.
struct StoredBytes {
  uint32_t epoch = 0;
  uint32_t bytes = 0;
};
constexpr uint64_t kStoredBlocks = 256 * 1024 / 32;
struct Stored {
  std::array<StoredBytes, kStoredBlocks> cells{};
  uint32_t epoch = 1;
};
Stored& stored() {
  // On the heap: a library that is loaded at run time gets little thread-local memory of the kind current_run needs.
  thread_local const std::unique_ptr<Stored> state = std::make_unique<Stored>();
  return *state;
}

// Bits of the bytes [begin, end) of one cell.
uint32_t bits_of_block(uint64_t cell, uint64_t begin, uint64_t end) {
  const uint64_t from = begin > cell * 32 ? begin - cell * 32 : 0;
  const uint64_t to = std::min<uint64_t>(end - cell * 32, 32);
  return static_cast<uint32_t>((uint64_t{1} << to) - (uint64_t{1} << from));
}

}  // namespace

constinit thread_local VectorRun* current_run __attribute__((tls_model("initial-exec"))) = nullptr;

void not_in_vector_function() {
  this_core().fail(Check::kParameter, Loc{},
                   "an instruction of the vector unit outside a vector function; put it in a function that asc_vf_call "
                   "calls or in a __VEC_SCOPE__ block");
}

VectorRun::VectorRun(Core& core, bool compute, bool any_tensor)
    : core_(core),
      memory_(core.memory(Space::kUB)),
      defined_(core.defined_map(Space::kUB)),
      capacity_(capacity(Space::kUB)),
      compute_(compute),
      any_tensor_(any_tensor),
      outer_(current_run) {
  if (outer_ != nullptr) core.fail(Check::kParameter, Loc{}, "a vector function calls another vector function");
  next_epoch();
  current_run = this;
}

VectorRun::~VectorRun() {
  current_run = outer_;
  // After a fault: what was written must still be known as written, for the next launch finds the memory clean.
  for (Pending& pending : writes_.pending) {
    try {
      hand_over(pending, true);
    } catch (...) {
      // The first fault is the one that is reported.
    }
  }
}

void VectorRun::allow(const void* pointer) {
  Range range;
  if (!core_.exposed(pointer, &range.begin, &range.end)) return;  // the first access through it tells
  for (int i = 0; i < tensors_; ++i) {
    if (tensor_[i].begin <= range.begin && tensor_[i].end >= range.end) return;
  }
  if (tensors_ == static_cast<int>(std::size(tensor_))) {
    core_.fail(Check::kParameter, Loc{}, "the twin takes at most 16 tensors in one vector function");
  }
  tensor_[tensors_++] = range;
}

void VectorRun::find(const void* pointer, uint64_t begin, uint32_t first, uint32_t last, Loc loc, const char* what) {
  if (first >= last) return;
  if (begin > capacity_ || begin + last > capacity_) {
    if (begin > capacity_) outside(pointer, loc);
    core_.fail(Check::kBounds, loc,
               text("a vector function ", what, " bytes ", begin + first, " to ", begin + last, " of UB, which has ",
                    capacity_));
  }
  for (int i = 0; i < tensors_; ++i) {
    if (begin + first >= tensor_[i].begin && begin + last <= tensor_[i].end) {
      hit_ = tensor_[i];
      return;
    }
  }
  Range range;
  if (any_tensor_ && core_.exposed(pointer, &range.begin, &range.end) && begin + first >= range.begin &&
      begin + last <= range.end) {
    hit_ = range;
    return;
  }
  if (!core_.options().strict_tensor_sizes) return;
  std::string known;
  for (int i = 0; i < tensors_; ++i) known += text(i ? ", " : "", "[", tensor_[i].begin, ", ", tensor_[i].end, ")");
  const bool store = std::string(what) == "stores";
  core_.fail(Check::kBounds, loc,
             text("a vector function ", what, " bytes ", begin + first, " to ", begin + last,
                  " of UB, outside every tensor that it was given", known.empty() ? "" : " (" + known + ")",
                  store ? "; a store takes what its mask lets through, an interleaving one two registers: "
                        : "; a load takes whole registers: ",
                  "make the tensor large enough, or count the repeats again"));
}

void VectorRun::misaligned(uint64_t begin, uint32_t alignment, Loc loc, const char* what) {
  core_.fail(Check::kAlignment, loc,
             text("a vector function ", what, " at byte ", begin, " of UB; this kind of access needs a multiple of ",
                  alignment, " (LoadUnAlign and StoreUnAlign take any)"));
}

void VectorRun::outside(const void*, Loc loc) {
  core_.fail(Check::kBounds, loc,
             "a vector function uses a pointer that is not into UB; pass what GetPhyAddr returned");
}

void VectorRun::note_slowly(Stream& stream, uint64_t begin, uint64_t end, bool write, Loc loc) {
  for (int i = 0; i < kStreams; ++i) {
    Range& range = stream.pending[i].range;
    if (range.end != 0 && begin >= range.begin && begin <= range.end) {
      stream.last = i;
      range.end = std::max(range.end, end);
      return;
    }
  }
  Pending& pending = stream.pending[stream.oldest];
  hand_over(pending, write);
  pending = {{begin, end}, loc};
  stream.last = stream.oldest;
  stream.oldest = (stream.oldest + 1) % kStreams;
}

void VectorRun::hand_over(Pending& pending, bool write) {
  if (pending.range.end == 0) return;
  core_.access({Space::kUB, pending.range.begin, pending.range.end - pending.range.begin}, write, pending.loc);
  pending.range = {};
}

void VectorRun::finish() {
  for (Pending& pending : reads_.pending) hand_over(pending, false);
  for (Pending& pending : writes_.pending) hand_over(pending, true);
}

void VectorRun::next_epoch() {
  Stored& state = stored();
  if (++state.epoch == 0) state = Stored{};
  stored_range_ = {};
}

void VectorRun::remember(uint64_t begin, uint32_t bytes) {
  Stored& state = stored();
  const uint64_t end = begin + bytes;
  stored_range_ =
      stored_ ? Range{std::min(stored_range_.begin, begin), std::max(stored_range_.end, end)} : Range{begin, end};
  stored_ = true;
  for (uint64_t cell = begin / 32; cell * 32 < end; ++cell) {
    StoredBytes& entry = state.cells[cell];
    if (entry.epoch != state.epoch) entry = {state.epoch, 0};
    entry.bytes |= bits_of_block(cell, begin, end);
  }
}

void VectorRun::check_order_slowly(uint64_t begin, uint32_t bytes, Loc loc) {
  const Stored& state = stored();
  const uint64_t end = begin + bytes;
  for (uint64_t cell = begin / 32; cell * 32 < end; ++cell) {
    const StoredBytes& entry = state.cells[cell];
    if (entry.epoch == state.epoch && (entry.bytes & bits_of_block(cell, begin, end)) != 0) {
      core_.fail(
          Check::kMemoryOrder, loc,
          text("a vector function loads bytes ", begin, " to ", end,
               " of UB, some of which it stored before; put LocalMemBar<MemType::VEC_STORE, MemType::VEC_LOAD>() "
               "between the store and the load"));
    }
  }
}

}  // namespace npu_lp::twin
