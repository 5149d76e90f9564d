#include "twin/reg_lanes.h"

#include <cstring>

#include "twin/reg_reduce.h"
#include "twin/reg_select.h"

namespace npu_lp::twin {

namespace {

template <typename W>
void taint_lanes_of(uint8_t* out, bool merging, const MaskReg& mask, const uint8_t* old, const uint8_t* a,
                    const uint8_t* b, const uint8_t* c) {
  constexpr W kOnes = static_cast<W>(0x0101010101010101ull);
  constexpr int kCount = kRegBytes / static_cast<int>(sizeof(W));
  const auto* bits = lanes<W>(mask.bits);
  const auto* bits_defined = lanes<W>(defined_of(mask));
  auto* result = lanes<W>(out);
  for (int i = 0; i < kCount; ++i) {
    const bool computed = (lanes<W>(a)[i] & lanes<W>(b)[i] & lanes<W>(c)[i]) == kOnes;
    const bool kept = !merging || lanes<W>(old)[i] == kOnes;
    const bool good = (bits_defined[i] & 1) && ((bits[i] & 1) ? computed : kept);
    result[i] = good ? kOnes : W{0};
  }
}

}  // namespace

#define NPU_LP_ONES_16 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
#define NPU_LP_ONES_64 NPU_LP_ONES_16, NPU_LP_ONES_16, NPU_LP_ONES_16, NPU_LP_ONES_16
alignas(64) const uint8_t kAllDefined[kRegBytes] = {NPU_LP_ONES_64, NPU_LP_ONES_64, NPU_LP_ONES_64, NPU_LP_ONES_64};
#undef NPU_LP_ONES_16
#undef NPU_LP_ONES_64

void set_defined(RegDefined& reg, const uint8_t* map) {
  reg.all = std::memcmp(map, kAllDefined, kRegBytes) == 0;
  if (!reg.all) std::memmove(reg.defined, map, kRegBytes);
}

void taint_lanes(RegData& dst, int width, bool merging, const MaskReg& mask, const RegDefined* a, const RegDefined* b,
                 const RegDefined* c) {
  alignas(64) uint8_t out[kRegBytes];
  const uint8_t* old = defined_of(dst);
  const uint8_t* x = defined_of(*a);
  const uint8_t* y = defined_of(*b);
  const uint8_t* z = defined_of(*c);
  switch (width) {
    case 1:
      taint_lanes_of<uint8_t>(out, merging, mask, old, x, y, z);
      break;
    case 2:
      taint_lanes_of<uint16_t>(out, merging, mask, old, x, y, z);
      break;
    case 4:
      taint_lanes_of<uint32_t>(out, merging, mask, old, x, y, z);
      break;
    default:
      taint_lanes_of<uint64_t>(out, merging, mask, old, x, y, z);
      break;
  }
  set_defined(dst, out);
}

void taint_compare(MaskReg& dst, int width, const MaskReg& mask, const RegDefined& a, const RegDefined& b) {
  alignas(64) uint8_t out[kRegBytes];
  const uint8_t* x = defined_of(a);
  const uint8_t* y = defined_of(b);
  const uint8_t* known = defined_of(mask);
  for (int lane = 0; lane < kRegBytes; lane += width) {
    bool good = known[lane];
    if (good && mask.bits[lane]) {
      for (int i = lane; i < lane + width; ++i) good = good && x[i] && y[i];
    }
    std::memset(out + lane, 1, static_cast<size_t>(width));
    out[lane] = good ? 1 : 0;
  }
  set_defined(dst, out);
}

bool defined_lanes(const RegData& src, const MaskReg& mask, int first_byte, int width, int count) {
  if (src.all && mask.all) return true;
  const uint8_t* known = defined_of(src);
  const uint8_t* bits_known = defined_of(mask);
  for (int lane = first_byte; lane < first_byte + count * width; lane += width) {
    if (!bits_known[lane]) return false;
    if (mask.bits[lane] && std::memcmp(known + lane, kAllDefined, static_cast<size_t>(width)) != 0) return false;
  }
  return true;
}

}  // namespace npu_lp::twin
