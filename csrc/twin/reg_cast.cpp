#include "twin/reg_cast.h"

#include "formats/hif8.h"
#include "formats/minifloat.h"

namespace npu_lp::twin {

const HiF8Table& hif8_table() {
  static const HiF8Table table = [] {
    HiF8Table built;
    for (uint32_t i = 0; i < 4096; ++i) {
      // Numbers that share these bits share the code; of the NaNs none gets here.
      const float value = float_of(i << 19);
      built.saturating[i] = HiF8::encode(value, true);
      built.plain[i] = HiF8::encode(value, false);
    }
    return built;
  }();
  return table;
}

const DecodeTables& decode_tables() {
  static const DecodeTables tables = [] {
    DecodeTables built;
    for (uint32_t code = 0; code < 256; ++code) {
      built.e4m3[code] = E4M3::decode(code);
      built.e5m2[code] = E5M2::decode(code);
      built.hif8[code] = HiF8::decode(code);
    }
    for (uint32_t code = 0; code < 16; ++code) {
      built.e2m1[code] = narrow_bf16(E2M1::decode(code));
      built.e1m2[code] = narrow_bf16(E1M2::decode(code));
    }
    return built;
  }();
  return tables;
}

void taint_cast(RegData& dst, const RegData& src, const MaskReg& mask, int dst_width, int src_width, int layout) {
  if (src.all && mask.all) {
    dst.all = true;
    return;
  }
  alignas(64) uint8_t out[kRegBytes];
  std::memset(out, 1, sizeof out);
  const uint8_t* known = defined_of(src);
  const uint8_t* bits_known = defined_of(mask);
  const int wide = std::max(dst_width, src_width);
  for (int lane = 0; lane < kRegBytes; lane += wide) {
    const int from = src_width < wide ? lane + layout * src_width : lane;
    const int to = dst_width < wide ? lane + layout * dst_width : lane;
    bool good = bits_known[from];
    if (good && mask.bits[from]) {
      for (int i = from; i < from + src_width; ++i) good = good && known[i];
    }
    if (!good) std::memset(out + to, 0, static_cast<size_t>(dst_width));
  }
  set_defined(dst, out);
}

// The headers make these two from shifts and integer Casts, which leave their intermediate results in the source
// register.

void cast_to_e8m0(RegData& dst, RegData& src, const MaskReg& mask, int layout) {
  RegData shifted;
  map_bits2<uint16_t, MaskMergeMode::ZEROING>(shifted, src, src, mask, [](uint16_t bits, uint16_t) {
    return static_cast<uint16_t>(static_cast<uint16_t>(bits << 1) >> 8);  // the exponent
  });
  src = shifted;
  cast_lanes<uint8_t, uint16_t>(dst, shifted, mask, layout, [](uint16_t exponent) { return exponent; });
}

void cast_from_e8m0(RegData& dst, RegData& src, const MaskReg& mask, int layout) {
  RegData widened;
  cast_lanes<uint16_t, uint8_t>(widened, src, mask, layout, [](uint8_t code) { return code; });
  src = widened;
  map_bits2<uint16_t, MaskMergeMode::ZEROING>(dst, widened, widened, mask, [](uint16_t code, uint16_t) {
    return static_cast<uint16_t>(code == 0xFF ? 0x7FC0 : code << 7);
  });
}

}  // namespace npu_lp::twin
