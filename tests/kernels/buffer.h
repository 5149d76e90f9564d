// Memory that notices who touches more than it: a buffer ends where an unmapped page begins, so that one byte read or
// written past its end is a fault, and begins after bytes that must still be there afterwards.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace npu_lp::cpu::test {

class Buffer {
 public:
  explicit Buffer(size_t size, uint8_t fill = 0xA5) : size_(size) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size + kGuard + page - 1) / page * page + page;
    void* at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<uint8_t*>(at);
    data_ = base_ + mapped_ - page - size;
    if (mprotect(data_ + size, page, PROT_NONE) != 0) throw std::bad_alloc();
    std::memset(data_ - kGuard, kGuardByte, kGuard);
    std::memset(data_, fill, size);
  }
  Buffer(Buffer&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), mapped_(other.mapped_), data_(other.data_), size_(other.size_) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (base_ != nullptr) munmap(base_, mapped_);
  }

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool guard_intact() const {
    for (size_t i = 1; i <= kGuard; ++i) {
      if (*(data_ - i) != kGuardByte) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr uint8_t kGuardByte = 0x5C;
  uint8_t* base_;
  size_t mapped_;
  uint8_t* data_;
  size_t size_;
};

}  // namespace npu_lp::cpu::test
