// TPipe, TQue, TBuf and LocalMemAllocator. On this device a queue hands its buffers on with buffer ids, not flags: the
// producing pipe's work before EnQue happens before the consuming pipe's after DeQue, and FreeTensor lets the producer
// in again. The work is in queue.cpp; here are the types.
#pragma once

#include <memory>
#include <vector>

#include "twin/enums.h"
#include "twin/machine.h"
#include "twin/tensor.h"

namespace npu_lp::twin {

// One queue, or a TBuf (depth 0: nothing to hand over).
class Queue {
 public:
  Queue(Pipe producer, Pipe consumer, int depth) : producer_(producer), consumer_(consumer), depth_(depth) {}
  void add_buffer(uint64_t begin, uint64_t end, Loc loc);
  // Each returns the index of the buffer.
  size_t allocate(Core& core, Loc loc);
  void enqueue(Core& core, uint64_t begin, Loc loc);
  size_t dequeue(Core& core, Loc loc);
  void free(Core& core, uint64_t begin, Loc loc);
  void check_clean(Core& core) const;

  uint64_t begin(size_t buffer) const { return buffers_[buffer].begin; }
  uint64_t end(size_t buffer) const { return buffers_[buffer].end; }
  size_t buffers() const { return buffers_.size(); }
  size_t waiting() const { return fifo_.size(); }
  bool has_idle() const;
  AscendC::TBufState state(uint64_t begin) const;

 private:
  struct Buffer {
    uint64_t begin, end;
    AscendC::TBufState state = AscendC::TBufState::FREE;
    uint32_t token = 0;  // of the last hand-over
    Loc loc;             // of the call that gave it its state
  };
  Buffer& find(Core& core, uint64_t begin, const char* call, Loc loc);

  Pipe producer_, consumer_;
  int depth_;
  size_t next_ = 0;  // where the search for a free buffer starts: buffers are taken in turn
  std::vector<Buffer> buffers_;
  std::vector<size_t> fifo_;
};

constexpr Pipe producer_of(AscendC::TPosition position) {
  using AscendC::TPosition;
  switch (position) {
    case TPosition::VECOUT:
    case TPosition::VECCALC:
      return Pipe::kV;
    case TPosition::A2:
    case TPosition::B2:
    case TPosition::C2:
      return Pipe::kMTE1;
    case TPosition::CO1:
      return Pipe::kM;
    default:
      return Pipe::kMTE2;
  }
}
constexpr Pipe consumer_of(AscendC::TPosition position) {
  using AscendC::TPosition;
  switch (position) {
    case TPosition::VECOUT:
      return Pipe::kMTE3;
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::TSCM:
      return Pipe::kMTE1;
    case TPosition::A2:
    case TPosition::B2:
    case TPosition::C2:
      return Pipe::kM;
    case TPosition::CO1:
      return Pipe::kFIX;
    default:
      return Pipe::kV;
  }
}

}  // namespace npu_lp::twin

namespace AscendC {

using npu_lp::twin::Loc;

struct TQueConfig {
  bool nd2nz = false;
  bool nz2nd = false;
  bool scmBlockGroup = false;
  uint32_t bufferLen = 0;
  uint32_t bufferNumber = 0;
  uint32_t consumerSize = 0;
  TPosition consumer[8] = {};
  bool enableStaticEvtId = false;
  bool enableLoopQueue = false;
};

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
 public:
  static constexpr TPosition kPosition = src == TPosition::GM ? dst : src;

  template <typename T>
  LocalTensor<T> AllocTensor(Loc loc = Loc::here()) {
    return tensor<T>(queue(loc).allocate(npu_lp::twin::this_core(), loc));
  }
  template <typename T>
  void AllocTensor(LocalTensor<T>& result, Loc loc = Loc::here()) {
    result = AllocTensor<T>(loc);
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>& freed, Loc loc = Loc::here()) {
    queue(loc).free(npu_lp::twin::this_core(), freed.begin(), loc);
  }
  template <typename T>
  bool EnQue(const LocalTensor<T>& entered, Loc loc = Loc::here()) {
    queue(loc).enqueue(npu_lp::twin::this_core(), entered.begin(), loc);
    return true;
  }
  template <TPosition, TPosition, typename T>
  bool EnQue(const LocalTensor<T>& entered, Loc loc = Loc::here()) {
    return EnQue(entered, loc);
  }
  template <typename T>
  LocalTensor<T> DeQue(Loc loc = Loc::here()) {
    return tensor<T>(queue(loc).dequeue(npu_lp::twin::this_core(), loc));
  }
  template <typename T>
  void DeQue(LocalTensor<T>& result, Loc loc = Loc::here()) {
    result = DeQue<T>(loc);
  }
  template <TPosition, TPosition, typename T>
  LocalTensor<T> DeQue(Loc loc = Loc::here()) {
    return DeQue<T>(loc);
  }
  bool VacantInQue(Loc loc = Loc::here()) { return queue(loc).waiting() < static_cast<size_t>(kDepth); }
  bool HasTensorInQue(Loc loc = Loc::here()) { return queue(loc).waiting() > 0; }
  int32_t GetTensorCountInQue(Loc loc = Loc::here()) { return static_cast<int32_t>(queue(loc).waiting()); }
  bool HasIdleBuffer(Loc loc = Loc::here()) { return queue(loc).has_idle(); }
  void FreeAllEvent() {}
  template <typename T>
  TBufState GetState(const LocalTensor<T>& asked, Loc loc = Loc::here()) {
    return queue(loc).state(asked.begin());
  }

 protected:
  friend class TPipe;
  static constexpr int kDepth = depth > 0 ? depth : 1;
  static constexpr npu_lp::twin::Pipe kProducer =
      src == TPosition::GM ? npu_lp::twin::producer_of(dst) : npu_lp::twin::producer_of(src);
  static constexpr npu_lp::twin::Pipe kConsumer =
      dst == TPosition::GM ? npu_lp::twin::consumer_of(src) : npu_lp::twin::consumer_of(dst);

  npu_lp::twin::Queue& queue(Loc loc) {
    using namespace npu_lp::twin;
    if (!queue_) this_core().fail(Check::kQueue, loc, "a queue is used before TPipe::InitBuffer gave it buffers");
    return *queue_;
  }
  template <typename T>
  LocalTensor<T> tensor(size_t buffer) {
    return LocalTensor<T>::over(kPosition, queue_->begin(buffer), queue_->end(buffer));
  }

  std::shared_ptr<npu_lp::twin::Queue> queue_;
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<pos, pos, depth, mask> {};

template <TPosition pos, int32_t depth = 1, auto mask = 0>
using TSCM = TQueBind<pos, TPosition::TSCM, depth, mask>;

template <TPosition pos = TPosition::LCM>
class TBuf {
 public:
  template <typename T>
  LocalTensor<T> Get(Loc loc = Loc::here()) {
    check(loc);
    return LocalTensor<T>::over(pos, begin_, end_);
  }
  template <typename T>
  LocalTensor<T> Get(uint32_t elements, Loc loc = Loc::here()) {
    return GetWithOffset<T>(elements, 0, loc);
  }
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t byte_offset, Loc loc = Loc::here()) {
    using namespace npu_lp::twin;
    check(loc);
    const uint64_t begin = begin_ + byte_offset;
    const uint64_t end = begin + bytes_of<T>(elements);
    if (end > end_) {
      this_core().fail(
          Check::kBounds, loc,
          text("Get of bytes ", byte_offset, " to ", end - begin_, " of a TBuf of ", end_ - begin_, " bytes"));
    }
    return LocalTensor<T>::over(pos, begin, end);
  }
  // A TBuf is never handed on: these exist because queues and buffers share code.
  template <typename T>
  LocalTensor<T> AllocTensor(Loc loc = Loc::here()) {
    return Get<T>(loc);
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>&) {}

 private:
  friend class TPipe;
  void check(Loc loc) const {
    using namespace npu_lp::twin;
    if (begin_ == end_) this_core().fail(Check::kQueue, loc, "a TBuf is used before TPipe::InitBuffer gave it memory");
  }
  uint64_t begin_ = 0, end_ = 0;
};

class TPipe {
 public:
  explicit TPipe(Loc loc = Loc::here());
  // Waits for all pipes, as on the device; a report may come of it.
  ~TPipe() noexcept(false);
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;

  void Init() {}
  void Destroy(Loc loc = Loc::here());
  void Reset(Loc loc = Loc::here());

  template <TPosition src, TPosition dst, int32_t depth, auto mask>
  bool InitBuffer(TQueBind<src, dst, depth, mask>& queue, uint8_t count, uint32_t bytes, Loc loc = Loc::here()) {
    using Q = TQueBind<src, dst, depth, mask>;
    queue.queue_ = std::make_shared<npu_lp::twin::Queue>(Q::kProducer, Q::kConsumer, Q::kDepth);
    for (int i = 0; i < count; ++i) {
      const uint64_t begin = reserve(npu_lp::twin::space_of(Q::kPosition), bytes, loc);
      queue.queue_->add_buffer(begin, begin + (bytes + 31) / 32 * 32, loc);
    }
    watch(queue.queue_);
    return true;
  }
  template <TPosition pos>
  bool InitBuffer(TBuf<pos>& buffer, uint32_t bytes, Loc loc = Loc::here()) {
    buffer.begin_ = reserve(npu_lp::twin::space_of(pos), bytes, loc);
    buffer.end_ = buffer.begin_ + (bytes + 31) / 32 * 32;
    return true;
  }

  template <HardEvent event>
  TEventID AllocEventID(Loc loc = Loc::here()) {
    return take_id(event, true, loc);
  }
  template <HardEvent event>
  void ReleaseEventID(TEventID id, Loc loc = Loc::here()) {
    release_id(event, id, loc);
  }
  template <HardEvent event>
  TEventID FetchEventID(Loc loc = Loc::here()) {
    return take_id(event, false, loc);
  }
  TEventID FetchEventID(HardEvent event, Loc loc = Loc::here()) { return take_id(event, false, loc); }

 private:
  uint64_t reserve(npu_lp::twin::Space space, uint64_t bytes, Loc loc);
  void watch(std::shared_ptr<npu_lp::twin::Queue> queue);
  TEventID take_id(HardEvent event, bool keep, Loc loc);
  void release_id(HardEvent event, TEventID id, Loc loc);

  uint64_t used_[npu_lp::twin::kSpaces] = {};
  uint8_t ids_[static_cast<int>(HardEvent::MAX)] = {};  // allocated event ids, one bit each
  std::vector<std::shared_ptr<npu_lp::twin::Queue>> queues_;
  Loc loc_;
  bool alive_ = true;
};

template <Hardware hard = Hardware::UB>
class LocalMemAllocator {
 public:
  static constexpr TPosition kPosition = hard == Hardware::L1       ? TPosition::A1
                                         : hard == Hardware::L0A    ? TPosition::A2
                                         : hard == Hardware::L0B    ? TPosition::B2
                                         : hard == Hardware::L0C    ? TPosition::CO1
                                         : hard == Hardware::BIAS   ? TPosition::C2
                                         : hard == Hardware::FIXBUF ? TPosition::C2PIPE2GM
                                                                    : TPosition::VECCALC;
  uint32_t GetCurAddr() const { return head_; }

  template <TPosition pos, class T, uint32_t elements>
  LocalTensor<T> Alloc(Loc loc = Loc::here()) {
    return take<T>(pos, elements, loc);
  }
  template <TPosition pos, class T>
  LocalTensor<T> Alloc(uint32_t elements, Loc loc = Loc::here()) {
    return take<T>(pos, elements, loc);
  }
  template <class T, uint32_t elements>
  LocalTensor<T> Alloc(Loc loc = Loc::here()) {
    return take<T>(kPosition, elements, loc);
  }
  template <class T>
  LocalTensor<T> Alloc(uint32_t elements, Loc loc = Loc::here()) {
    return take<T>(kPosition, elements, loc);
  }

 private:
  template <typename T>
  LocalTensor<T> take(TPosition position, uint32_t elements, Loc loc) {
    const LocalTensor<T> tensor(position, head_, elements, loc);
    const uint32_t unit = npu_lp::twin::start_alignment(npu_lp::twin::space_of(position));
    head_ += static_cast<uint32_t>((npu_lp::twin::bytes_of<T>(elements) + unit - 1) / unit * unit);
    return tensor;
  }
  uint32_t head_ = 0;
};

}  // namespace AscendC
