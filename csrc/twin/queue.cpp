// Queues of buffers and the TPipe that lays them out.
#include "twin/queue.h"

#include <algorithm>
#include <exception>

#include "twin/sync.h"

namespace npu_lp::twin {

using AscendC::TBufState;

namespace {
constexpr int kUserIds = 6;  // 6 and 7 belong to the system and to TPipe
constexpr uint32_t kMutexes = 28;

const char* state_name(TBufState state) {
  switch (state) {
    case TBufState::FREE:
      return "free";
    case TBufState::OCCUPIED:
      return "allocated";
    case TBufState::ENQUE:
      return "in the queue";
    default:
      return "taken out of the queue";
  }
}
}  // namespace

void Queue::add_buffer(uint64_t begin, uint64_t end, Loc loc) {
  buffers_.push_back({begin, end, TBufState::FREE, 0, loc});
}

bool Queue::has_idle() const {
  return std::any_of(buffers_.begin(), buffers_.end(), [](const Buffer& b) { return b.state == TBufState::FREE; });
}

TBufState Queue::state(uint64_t begin) const {
  for (const Buffer& buffer : buffers_) {
    if (buffer.begin == begin) return buffer.state;
  }
  return TBufState::FREE;
}

Queue::Buffer& Queue::find(Core& core, uint64_t begin, const char* call, Loc loc) {
  for (Buffer& buffer : buffers_) {
    if (buffer.begin == begin) return buffer;
  }
  core.fail(Check::kQueue, loc,
            text(call, " of a tensor at byte ", begin, " that is none of this queue's ", buffers_.size(),
                 " buffers; pass the tensor that AllocTensor or DeQue returned"));
}

size_t Queue::allocate(Core& core, Loc loc) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const size_t at = (next_ + i) % buffers_.size();
    Buffer& buffer = buffers_[at];
    if (buffer.state != TBufState::FREE) continue;
    next_ = (at + 1) % buffers_.size();
    buffer.state = TBufState::OCCUPIED;
    buffer.loc = loc;
    core.acquire(producer_, buffer.token, loc);
    buffer.token = 0;
    return at;
  }
  core.fail(Check::kQueue, loc,
            text("AllocTensor with all ", buffers_.size(), " buffers in use; the first was ",
                 buffers_.empty() ? "" : state_name(buffers_[0].state), " at line ",
                 buffers_.empty() ? 0 : buffers_[0].loc.line, "; free one first or give InitBuffer more"));
}

void Queue::enqueue(Core& core, uint64_t begin, Loc loc) {
  Buffer& buffer = find(core, begin, "EnQue", loc);
  if (buffer.state != TBufState::OCCUPIED && buffer.state != TBufState::DEQUE) {
    core.fail(Check::kQueue, loc,
              text("EnQue of a tensor that is ", state_name(buffer.state), "; it must come from AllocTensor"));
  }
  if (fifo_.size() >= static_cast<size_t>(depth_)) {
    core.fail(Check::kQueue, loc,
              text("EnQue of tensor ", fifo_.size() + 1, " into a queue of depth ", depth_,
                   "; DeQue first, or declare a deeper queue"));
  }
  buffer.state = TBufState::ENQUE;
  buffer.loc = loc;
  buffer.token = core.release(producer_, loc);
  fifo_.push_back(static_cast<size_t>(&buffer - buffers_.data()));
}

size_t Queue::dequeue(Core& core, Loc loc) {
  if (fifo_.empty()) core.fail(Check::kQueue, loc, "DeQue from an empty queue; EnQue first");
  const size_t at = fifo_.front();
  fifo_.erase(fifo_.begin());
  Buffer& buffer = buffers_[at];
  buffer.state = TBufState::DEQUE;
  buffer.loc = loc;
  core.acquire(consumer_, buffer.token, loc);
  buffer.token = 0;
  return at;
}

void Queue::free(Core& core, uint64_t begin, Loc loc) {
  Buffer& buffer = find(core, begin, "FreeTensor", loc);
  if (buffer.state != TBufState::OCCUPIED && buffer.state != TBufState::DEQUE) {
    core.fail(Check::kQueue, loc, text("FreeTensor of a tensor that is ", state_name(buffer.state)));
  }
  // A tensor that was never handed over was used by the producer alone.
  buffer.token = core.release(buffer.state == TBufState::DEQUE ? consumer_ : producer_, loc);
  buffer.state = TBufState::FREE;
  buffer.loc = loc;
}

void Queue::check_clean(Core& core) const {
  for (const Buffer& buffer : buffers_) {
    if (buffer.state == TBufState::FREE) continue;
    core.fail(Check::kQueue, buffer.loc,
              text("a tensor is still ", state_name(buffer.state), " when the kernel ends; FreeTensor it"));
  }
}

void mutex_lock(Pipe pipe, uint32_t id, Loc loc) {
  Core& core = this_core();
  if (id >= kMutexes) core.fail(Check::kParameter, loc, text("mutex ", id, "; 0 to ", kMutexes - 1, " exist"));
  uint32_t& token = core.mutex_tokens[id];
  if (token == UINT32_MAX) {
    core.fail(Check::kFlag, loc, text("mutex ", id, " is locked again before it was unlocked"));
  }
  core.acquire(pipe, token, loc);
  token = UINT32_MAX;
}

void mutex_unlock(Pipe pipe, uint32_t id, Loc loc) {
  Core& core = this_core();
  if (id >= kMutexes) core.fail(Check::kParameter, loc, text("mutex ", id, "; 0 to ", kMutexes - 1, " exist"));
  uint32_t& token = core.mutex_tokens[id];
  if (token != UINT32_MAX) core.fail(Check::kFlag, loc, text("mutex ", id, " is unlocked but was not locked"));
  token = core.release(pipe, loc);
}

}  // namespace npu_lp::twin

namespace AscendC {

using namespace npu_lp::twin;

TPipe::TPipe(Loc loc) : loc_(loc) {
  this_core().pipe_object = this;
  InitSocState();
}

TPipe::~TPipe() noexcept(false) {
  if (!in_launch()) return;
  if (this_core().pipe_object == this) this_core().pipe_object = nullptr;
  if (std::uncaught_exceptions() == 0) Destroy(loc_);
}

void TPipe::Destroy(Loc loc) {
  if (!alive_) return;
  alive_ = false;
  this_core().barrier_all(loc);
}

void TPipe::Reset(Loc loc) {
  Core& core = this_core();
  for (const std::shared_ptr<Queue>& queue : queues_) queue->check_clean(core);
  queues_.clear();
  std::fill(std::begin(used_), std::end(used_), 0);
  core.barrier_all(loc);
}

uint64_t TPipe::reserve(Space space, uint64_t bytes, Loc loc) {
  uint64_t& used = used_[static_cast<int>(space)];
  const uint64_t begin = used;
  used += (bytes + 31) / 32 * 32;
  if (bytes == 0) this_core().fail(Check::kParameter, loc, "InitBuffer of 0 bytes");
  if (used > capacity(space)) {
    this_core().fail(
        Check::kBounds, loc,
        text("InitBuffer brings the buffers in ", space_name(space), " to ", used, " bytes; it has ", capacity(space)));
  }
  return begin;
}

void TPipe::watch(std::shared_ptr<Queue> queue) {
  queues_.push_back(queue);
  this_core().at_finish([queue](Core& core) { queue->check_clean(core); });
}

TEventID TPipe::take_id(HardEvent event, bool keep, Loc loc) {
  uint8_t& taken = ids_[static_cast<int>(event)];
  for (int id = 0; id < kUserIds; ++id) {
    if (taken >> id & 1) continue;
    if (keep) taken = static_cast<uint8_t>(taken | 1 << id);
    return static_cast<TEventID>(id);
  }
  this_core().fail(Check::kFlag, loc,
                   text("all ", kUserIds,
                        " event ids of this pair of pipes are taken; "
                        "ReleaseEventID one"));
}

void TPipe::release_id(HardEvent event, TEventID id, Loc loc) {
  uint8_t& taken = ids_[static_cast<int>(event)];
  if (id < 0 || id >= kUserIds || !(taken >> id & 1)) {
    this_core().fail(Check::kFlag, loc, text("ReleaseEventID of event id ", int{id}, ", which is not allocated"));
  }
  taken = static_cast<uint8_t>(taken & ~(1 << id));
}

}  // namespace AscendC
