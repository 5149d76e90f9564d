// Picks the kernel table once, and guards the floating-point environment.
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu/kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace npu_lp::cpu {

namespace baseline {
extern const Kernels table;
}
#if defined(__x86_64__)
namespace v3 {
extern const Kernels table;
}
namespace v4 {
extern const Kernels table;
}
#endif

namespace {

// What this processor can run, best first.
std::vector<const Kernels*> usable() {
  std::vector<const Kernels*> tables;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vbmi")) tables.push_back(&v4::table);
  if (__builtin_cpu_supports("x86-64-v3")) tables.push_back(&v3::table);
#endif
  tables.push_back(&baseline::table);
  return tables;
}

const Kernels* choose() {
  const auto tables = usable();
  const char* wanted = std::getenv("NPU_LP_CPU");
  if (wanted == nullptr || *wanted == '\0') return tables.front();
  for (const Kernels* table : tables) {
    if (table->name == std::string(wanted)) return table;
  }
  throw std::runtime_error("NPU_LP_CPU=" + std::string(wanted) + " is not available on this processor, which has: " +
                           available_kernels() + ". Unset it to use the best of them.");
}

}  // namespace

const Kernels& kernels() {
  static const Kernels* chosen = choose();
  return *chosen;
}

const char* available_kernels() {
  static const std::string names = [] {
    std::string all;
    for (const Kernels* table : usable()) all.append(all.empty() ? "" : " ").append(table->name);
    return all;
  }();
  return names.c_str();
}

#if defined(__x86_64__)
// MXCSR with every exception masked, rounding to nearest, FTZ and DAZ clear.
FloatEnvironment::FloatEnvironment() : saved_(_mm_getcsr()) {
  _mm_setcsr(0x1F80u);
}
FloatEnvironment::~FloatEnvironment() {
  _mm_setcsr(static_cast<unsigned>(saved_));
}
#elif defined(__aarch64__)
FloatEnvironment::FloatEnvironment() : saved_(0) {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
}
FloatEnvironment::~FloatEnvironment() {
  asm volatile("msr fpcr, %0" : : "r"(saved_));
}
#else
#error "npu_lp knows how to control the floating-point environment of x86-64 and AArch64 only"
#endif

}  // namespace npu_lp::cpu
