// Casting many values: what the tests of Cast share.
#pragma once

#include <algorithm>

#include "formats/formats.h"
#include "reg_kernels.h"

using Reg::CastTrait;
using Reg::MaskMergeMode;
using Reg::MaskReg;
using Reg::RegLayout;
using Reg::RegTensor;
using Reg::SatMode;

template <RegLayout LAYOUT, SatMode SAT, RoundMode ROUND, MaskMergeMode MERGE = MaskMergeMode::ZEROING>
inline constexpr CastTrait kTrait = {LAYOUT, SAT, MERGE, ROUND};

constexpr uint64_t kPerInstruction = 8;  // bit 60 clear: the trait's satMode counts
constexpr uint64_t kGlobal = 1ull << 60;

// Casts all of `values`, 256 bytes of the wider type at a time, by a whole mask; layout ZERO unpacked.
template <typename D, typename S, const CastTrait& TRAIT>
std::vector<npu_lp::twin::Raw<D>> cast_all(const std::vector<npu_lp::twin::Raw<S>>& values, uint64_t control) {
  using Out = npu_lp::twin::Raw<D>;
  constexpr bool kWiden = sizeof(D) > sizeof(S);
  constexpr size_t kStep = 256 / (kWiden ? sizeof(D) : sizeof(S));
  constexpr size_t kRatio = kWiden ? sizeof(D) / sizeof(S) : sizeof(S) / sizeof(D);
  const size_t layout = TRAIT.layoutMode == RegLayout::UNKNOWN ? 0 : static_cast<size_t>(TRAIT.layoutMode);
  std::vector<Out> results;
  for (size_t at = 0; at < values.size(); at += kStep * 8) {
    Ub ub;
    ub.control = control;
    std::memset(ub.in.data(), 0xEE, kBytes);
    const size_t n = std::min(kStep * 8, values.size() - at);
    for (size_t i = 0; i < n; ++i) {
      const size_t place = kWiden ? i * kRatio + layout : i;
      std::memcpy(ub.in.data() + place * sizeof(S), &values[at + i], sizeof(S));
    }
    EXPECT_CLEAN(ub.run<uint8_t>([](uint8_t* in, uint8_t* out) {
      MaskReg all = Reg::CreateMask<uint8_t>();
      for (int i = 0; i < 8; ++i) {
        RegTensor<S> source;
        RegTensor<D> target;
        Reg::LoadAlign(reinterpret_cast<RegTensor<uint8_t>&>(source), in + 256 * i);
        Reg::Cast<D, S, TRAIT>(target, source, all);
        Reg::StoreAlign(out + 256 * i, reinterpret_cast<RegTensor<uint8_t>&>(target), all);
      }
    }));
    for (size_t i = 0; i < n; ++i) {
      const size_t place = kWiden ? i : i * kRatio + layout;
      results.push_back(ub.result<Out>(static_cast<uint32_t>(place)));
      if (kWiden || kRatio == 1) continue;
      for (size_t other = 0; other < kRatio; ++other) {  // the lanes that other layouts fill are zero
        if (other != layout) EXPECT(ub.result<Out>(static_cast<uint32_t>(i * kRatio + other)) == 0);
      }
    }
  }
  return results;
}

inline std::vector<uint16_t> all_16() {
  std::vector<uint16_t> values(65536);
  for (uint32_t i = 0; i < 65536; ++i) values[i] = static_cast<uint16_t>(i);
  return values;
}
inline std::vector<uint8_t> all_8() {
  std::vector<uint8_t> values(256);
  for (uint32_t i = 0; i < 256; ++i) values[i] = static_cast<uint8_t>(i);
  return values;
}

// Every value of the format, every midpoint, their neighbours in fp32, both signs; specials; random bits.
inline std::vector<uint32_t> around(npu_lp::Format format) {
  std::vector<float> points = {0.0f, 1e-45f, 1e-40f, 3e38f, INFINITY, 65504.0f, 65520.0f};
  std::vector<float> magnitudes;
  for (uint32_t code = 0; code < 128; ++code) {
    const float value = npu_lp::decode(format, code);
    if (std::isfinite(value)) magnitudes.push_back(value);
  }
  std::sort(magnitudes.begin(), magnitudes.end());
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    points.push_back(magnitudes[i]);
    points.push_back(i + 1 < magnitudes.size() ? (magnitudes[i] + magnitudes[i + 1]) / 2 : magnitudes[i] * 1.25f);
    points.push_back(magnitudes[i] * 1.0625f);
  }
  std::vector<uint32_t> values = {0x7FC00000u, 0xFFC00000u, 0x7F800001u};
  for (const float point : points) {
    for (int step = -1; step <= 1; ++step) {
      const uint32_t bits = bits_of(point) + static_cast<uint32_t>(point == 0.0f || std::isinf(point) ? 0 : step);
      values.push_back(bits);
      values.push_back(bits | 0x80000000u);
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) values.push_back(random());
  for (int i = 0; i < 20000; ++i) {
    const uint32_t bits = random();
    values.push_back((bits & 0x80FFFFFFu) | ((100 + bits % 45) << 23));
  }
  return values;
}
