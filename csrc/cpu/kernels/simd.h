// The vector type of the instruction set that this file is compiled for: floats, fused multiply-add, load and store.
// Included only by isa_*.cpp.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define NPU_LP_INLINE [[gnu::always_inline]] inline

namespace npu_lp::cpu::NPU_LP_ISA {

#if defined(__AVX512F__)
struct Vec {
  static constexpr int kWidth = 16;
  __m512 v;
  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec load(const float* p) { return {_mm512_load_ps(p)}; }
  static Vec splat(float x) { return {_mm512_set1_ps(x)}; }
  void store(float* p) const { _mm512_store_ps(p, v); }
};
inline Vec operator+(Vec a, Vec b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Vec operator*(Vec a, Vec b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
#elif defined(__AVX2__)
struct Vec {
  static constexpr int kWidth = 8;
  __m256 v;
  static Vec zero() { return {_mm256_setzero_ps()}; }
  static Vec load(const float* p) { return {_mm256_load_ps(p)}; }
  static Vec splat(float x) { return {_mm256_set1_ps(x)}; }
  void store(float* p) const { _mm256_store_ps(p, v); }
};
inline Vec operator+(Vec a, Vec b) {
  return {_mm256_add_ps(a.v, b.v)};
}
inline Vec operator*(Vec a, Vec b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
#elif defined(__aarch64__)
struct Vec {
  static constexpr int kWidth = 4;
  float32x4_t v;
  static Vec zero() { return {vdupq_n_f32(0.0f)}; }
  static Vec load(const float* p) { return {vld1q_f32(p)}; }
  static Vec splat(float x) { return {vdupq_n_f32(x)}; }
  void store(float* p) const { vst1q_f32(p, v); }
};
inline Vec operator+(Vec a, Vec b) {
  return {vaddq_f32(a.v, b.v)};
}
inline Vec operator*(Vec a, Vec b) {
  return {vmulq_f32(a.v, b.v)};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {vfmaq_f32(c.v, a.v, b.v)};
}
#else
// No fused multiply-add in the baseline instruction set: the C library's gives the same bits, slowly.
struct Vec {
  static constexpr int kWidth = 4;
  float v[4];
  static Vec zero() { return {{0.0f, 0.0f, 0.0f, 0.0f}}; }
  static Vec load(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
  static Vec splat(float x) { return {{x, x, x, x}}; }
  void store(float* p) const {
    for (int i = 0; i < 4; ++i) p[i] = v[i];
  }
};
inline Vec operator+(Vec a, Vec b) {
  return {{a.v[0] + b.v[0], a.v[1] + b.v[1], a.v[2] + b.v[2], a.v[3] + b.v[3]}};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {{std::fma(a.v[0], b.v[0], c.v[0]), std::fma(a.v[1], b.v[1], c.v[1]), std::fma(a.v[2], b.v[2], c.v[2]),
           std::fma(a.v[3], b.v[3], c.v[3])}};
}
#endif

}  // namespace npu_lp::cpu::NPU_LP_ISA
