// GlobalTensor and LocalTensor: where a tensor lies and how long it is. Sizes and indices count elements (fp4: single
// elements, two a byte), positions in the twin's own accessors count bytes.
//
// For the rest of the twin: space(), begin(), end(), and require() for "the next n bytes must be inside the tensor".
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "twin/enums.h"
#include "twin/machine.h"
#include "twin/text.h"
#include "twin/types.h"

namespace npu_lp::twin {

// An index that remembers where it was written, for operator[], which takes no default argument.
struct Index {
  uint64_t value;
  Loc loc;
  template <typename I, std::enable_if_t<std::is_convertible_v<I, uint64_t>, int> = 0>
  Index(I index, Loc here = Loc::here()) : value(static_cast<uint64_t>(index)), loc(here) {}
};

constexpr Space space_of(AscendC::TPosition position) {
  using AscendC::TPosition;
  switch (position) {
    case TPosition::GM:
      return Space::kGM;
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::TSCM:
      return Space::kL1;
    case TPosition::A2:
      return Space::kL0A;
    case TPosition::B2:
      return Space::kL0B;
    case TPosition::C2:
      return Space::kBT;
    case TPosition::CO1:
      return Space::kL0C;
    case TPosition::C2PIPE2GM:
      return Space::kFB;
    default:
      return Space::kUB;
  }
}

constexpr uint32_t start_alignment(Space space) {
  switch (space) {
    case Space::kL0A:
    case Space::kL0B:
      return 512;
    case Space::kL0C:
    case Space::kBT:
    case Space::kFB:
      return 64;
    default:
      return 32;
  }
}

// A place in GM whose index counted half bytes must fall on a byte.
void require_even_fp4(uint64_t index, Loc loc);
// One element read or written by the scalar unit.
void scalar_access(const Span& span, bool write, Loc loc, const char* what);

}  // namespace npu_lp::twin

namespace AscendC {

template <typename T>
class LocalTensor {
 public:
  using PrimType = T;
  using Loc = npu_lp::twin::Loc;

  LocalTensor() = default;
  LocalTensor(TPosition position, uint32_t address, uint32_t elements, Loc loc = Loc::here())
      : position_(position), begin_(address), end_(address + npu_lp::twin::bytes_of<T>(elements)) {
    using namespace npu_lp::twin;
    Core& core = this_core();
    const uint32_t alignment = start_alignment(space());
    if (begin_ % alignment != 0) {
      core.fail(Check::kAlignment, loc,
                text("a tensor in ", space_name(space()), " starts at byte ", begin_,
                     "; it must start at a multiple of ", alignment));
    }
    core.check_bounds({space(), begin_, end_ - begin_}, loc, "a static LocalTensor");
  }
  // A tensor over bytes [begin, end) that the caller has checked: queues, ReinterpretCast.
  static LocalTensor over(TPosition position, uint64_t begin, uint64_t end) {
    LocalTensor tensor;
    tensor.position_ = position;
    tensor.begin_ = begin;
    tensor.end_ = end;
    return tensor;
  }

  LocalTensor operator[](npu_lp::twin::Index index) const {
    using namespace npu_lp::twin;
    const uint64_t offset = static_cast<uint32_t>(index.value);
    if constexpr (is_fp4<T>) require_even_fp4(offset, index.loc);
    if (begin_ + bytes_of<T>(offset) > end_) check_index(offset, index.loc);
    LocalTensor tensor = *this;
    tensor.begin_ += bytes_of<T>(offset);
    return tensor;
  }

  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    return LocalTensor<U>::over(position_, begin_, end_);
  }

  // A host pointer to the tensor's first byte; from now on pointers into the tensor are known to the machine.
  T* GetPhyAddr(Loc loc = Loc::here()) const { return GetPhyAddr(0, loc); }
  T* GetPhyAddr(uint32_t offset, Loc loc = Loc::here()) const {
    using namespace npu_lp::twin;
    Core& core = this_core();
    if (begin_ == end_) core.fail(Check::kBounds, loc, "GetPhyAddr of a tensor without memory");
    uint8_t* pointer = core.memory(space()) + begin_ + bytes_of<T>(offset);
    if (space() == Space::kUB) core.expose(pointer, begin_, end_);
    return reinterpret_cast<T*>(pointer);
  }

  T GetValue(uint32_t offset, Loc loc = Loc::here()) const {
    static_assert(!npu_lp::twin::is_fp4<T>, "fp4 elements have no address of their own");
    using namespace npu_lp::twin;
    T value{};
    Core& core = this_core();
    const Span span = element(offset, loc);
    scalar_access(span, false, loc, "GetValue");
    if (core.computes()) std::memcpy(&value, core.memory(span.space) + span.begin, sizeof(T));
    return value;
  }
  template <typename V>
  void SetValue(uint32_t offset, V value, Loc loc = Loc::here()) const {
    static_assert(!npu_lp::twin::is_fp4<T>, "fp4 elements have no address of their own");
    using namespace npu_lp::twin;
    const T converted = static_cast<T>(value);
    Core& core = this_core();
    const Span span = element(offset, loc);
    scalar_access(span, true, loc, "SetValue");
    if (core.computes()) std::memcpy(core.memory(span.space) + span.begin, &converted, sizeof(T));
  }
  T operator()(uint32_t offset, Loc loc = Loc::here()) const { return GetValue(offset, loc); }

  uint32_t GetSize() const { return static_cast<uint32_t>(npu_lp::twin::elements_of<T>(end_ - begin_)); }
  uint32_t GetLength() const { return static_cast<uint32_t>(end_ - begin_); }
  void SetSize(uint32_t elements) { end_ = begin_ + npu_lp::twin::bytes_of<T>(elements); }
  void SetBufferLen(uint32_t bytes) { end_ = begin_ + bytes; }
  int32_t GetPosition() const { return static_cast<int32_t>(position_); }
  void SetUserTag(TTagType tag) { tag_ = tag; }
  TTagType GetUserTag() const { return tag_; }

  TPosition position() const { return position_; }
  npu_lp::twin::Space space() const { return npu_lp::twin::space_of(position_); }
  uint64_t begin() const { return begin_; }  // byte address in its memory
  uint64_t end() const { return end_; }
  // The first `bytes` bytes must be inside the tensor (or only inside the memory, with strict_tensor_sizes off).
  void require(uint64_t bytes, Loc loc, const char* what) const {
    using namespace npu_lp::twin;
    Core& core = this_core();
    if (begin_ + bytes > end_ && core.options().strict_tensor_sizes) {
      core.fail(Check::kBounds, loc,
                text(what, " needs ", bytes, " bytes of a tensor of ", type_name<T>(), " in ", space_name(space()),
                     " that has ", end_ - begin_, "; declare a larger tensor or move less"));
    }
    core.check_bounds({space(), begin_, bytes}, loc, what);
  }

 private:
  npu_lp::twin::Span element(uint32_t offset, Loc loc) const {
    if (begin_ + sizeof(T) * (offset + uint64_t{1}) > end_) check_index(offset + uint64_t{1}, loc);
    return {space(), begin_ + sizeof(T) * uint64_t{offset}, sizeof(T)};
  }
  void check_index(uint64_t offset, Loc loc) const {
    using namespace npu_lp::twin;
    Core& core = this_core();
    const uint64_t size = end_ > begin_ ? elements_of<T>(end_ - begin_) : 0;
    if (core.options().strict_tensor_sizes) {
      core.fail(Check::kBounds, loc,
                text("index ", offset, " of a tensor of ", size, " ", type_name<T>(), " in ", space_name(space())));
    }
    core.check_bounds({space(), begin_, bytes_of<T>(offset)}, loc, "an index");
  }

  TPosition position_ = TPosition::VECCALC;
  TTagType tag_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

template <typename T>
class GlobalTensor {
 public:
  using PrimType = T;
  using Loc = npu_lp::twin::Loc;

  void SetGlobalBuffer(T* buffer, uint64_t elements) {
    begin_ = reinterpret_cast<uint64_t>(buffer);
    end_ = begin_ + npu_lp::twin::bytes_of<T>(elements);
  }
  // Without a size only the launch's own list of GM tensors bounds it.
  void SetGlobalBuffer(T* buffer) {
    begin_ = reinterpret_cast<uint64_t>(buffer);
    end_ = UINT64_MAX;
  }
  T* GetPhyAddr() const { return reinterpret_cast<T*>(begin_); }
  T* GetPhyAddr(uint64_t offset) const { return reinterpret_cast<T*>(begin_ + npu_lp::twin::bytes_of<T>(offset)); }

  T GetValue(uint64_t offset, Loc loc = Loc::here()) const {
    using namespace npu_lp::twin;
    const Span span = element(offset, loc);
    scalar_access(span, false, loc, "GetValue");
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(span.begin), sizeof(T));
    return value;
  }
  void SetValue(uint64_t offset, T value, Loc loc = Loc::here()) const {
    using namespace npu_lp::twin;
    const Span span = element(offset, loc);
    scalar_access(span, true, loc, "SetValue");
    if (this_core().computes()) std::memcpy(reinterpret_cast<void*>(span.begin), &value, sizeof(T));
  }
  T operator()(uint64_t offset, Loc loc = Loc::here()) const { return GetValue(offset, loc); }

  GlobalTensor operator[](npu_lp::twin::Index index) const {
    using namespace npu_lp::twin;
    if constexpr (is_fp4<T>) require_even_fp4(index.value, index.loc);
    GlobalTensor tensor = *this;
    tensor.begin_ += bytes_of<T>(index.value);
    return tensor;
  }
  template <typename U>
  GlobalTensor<U> ReinterpretCast() const {
    GlobalTensor<U> tensor;
    tensor.begin_ = begin_;
    tensor.end_ = end_;
    return tensor;
  }
  uint64_t GetSize() const { return end_ == UINT64_MAX ? 0 : npu_lp::twin::elements_of<T>(end_ - begin_); }
  template <CacheRwMode mode = CacheRwMode::RW>
  void SetL2CacheHint(CacheMode) {}

  uint64_t begin() const { return begin_; }  // a host address
  uint64_t end() const { return end_; }
  // `span` of GM must end inside the tensor, where its size was given, and lie in one GM tensor of the launch.
  void require(const npu_lp::twin::Span& span, Loc loc, const char* what) const {
    using namespace npu_lp::twin;
    Core& core = this_core();
    if (span.len == 0 || span.count == 0) return;
    const uint64_t last = end_of(span);
    if (last > end_ && core.options().strict_tensor_sizes) {
      core.fail(Check::kBounds, loc, text(what, " ends ", last - end_, " bytes past the end of the GlobalTensor"));
    }
    core.check_bounds(span, loc, what);
  }

 private:
  template <typename U>
  friend class GlobalTensor;

  npu_lp::twin::Span element(uint64_t offset, Loc loc) const {
    static_assert(!npu_lp::twin::is_fp4<T>, "fp4 elements have no address of their own");
    const npu_lp::twin::Span span{npu_lp::twin::Space::kGM, begin_ + sizeof(T) * offset, sizeof(T)};
    require(span, loc, "a scalar access");
    return span;
  }

  uint64_t begin_ = 0;
  uint64_t end_ = UINT64_MAX;
};

}  // namespace AscendC
