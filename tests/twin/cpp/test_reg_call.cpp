// asc_vf_call and __VEC_SCOPE__ in the three modes: results, counts, races, faults.
#include "reg_kernels.h"

using Reg::MaskReg;
using Reg::RegTensor;

static int runs = 0;  // of the vector function

__simd_vf__ inline void scale(__ubuf__ float* x, __ubuf__ float* y, float factor, uint16_t repeats, uint32_t count) {
  ++runs;
  RegTensor<float> value;
  for (uint16_t i = 0; i < repeats; ++i) {
    MaskReg mask = Reg::UpdateMask<float>(count);
    Reg::LoadAlign(value, x + i * 64);
    Reg::Muls(value, value, factor, mask);
    Reg::StoreAlign(y + i * 64, value, mask);
  }
}

// GM -> UB -> scale -> UB -> GM, with or without the flags between; the second call only with `twice`.
static void scale_kernel(float* x, float* y, bool flags, bool twice, int* line) {
  LocalTensor<float> in(TPosition::VECIN, 0, 256), out(TPosition::VECOUT, 4096, 256);
  GlobalTensor<float> from, to;
  from.SetGlobalBuffer(x, 256);
  to.SetGlobalBuffer(y, 256);
  DataCopy(in, from, 256);
  if (flags) {
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
  }
  *line = __LINE__ + 1;
  asc_vf_call<scale>(in.GetPhyAddr(), out.GetPhyAddr(), 3.0f, 4, 250);
  if (twice) asc_vf_call<scale>(in.GetPhyAddr(), out.GetPhyAddr(), 3.0f, 4, 250);
  SetFlag<HardEvent::V_MTE3>(0);
  WaitFlag<HardEvent::V_MTE3>(0);
  DataCopy(to, out, 248);
}

struct Buffers {
  std::vector<float> x = std::vector<float>(256);
  std::vector<float> y = std::vector<float>(256);
  std::vector<GmRange> gm() { return {{x.data(), 1024}, {y.data(), 1024}}; }
  Buffers() {
    for (size_t i = 0; i < 256; ++i) x[i] = static_cast<float>(i);
  }
};

static VectorCounts vector_counts(const LaunchRecord& record) {
  for (const Record& r : record.cores[0]) {
    if (r.op == Op::kVector) return r.vector;
  }
  return {};
}

TEST(results_and_counts_in_every_mode) {
  Options options;
  for (const Mode mode : {Mode::kProgramOrder, Mode::kShuffled, Mode::kTimingOnly}) {
    options.mode = mode;
    for (options.seed = 0; options.seed < 6; ++options.seed) {
      Buffers b;
      int line = 0;
      const LaunchRecord record = launch("scale", CoreKind::kVector, 1, options, b.gm(),
                                         [&] { scale_kernel(b.x.data(), b.y.data(), true, false, &line); });
      for (size_t i = 0; i < 256; ++i) {
        EXPECT(b.y[i] == (mode != Mode::kTimingOnly && i < 248 ? 3.0f * b.x[i] : 0.0f));
      }
      const VectorCounts counts = vector_counts(record);
      EXPECT(counts.issued == 16 && counts.single == 4 && counts.loads == 4 && counts.stores == 4);
      EXPECT(counts.execute_cycles == 8 && counts.barriers == 0);
    }
  }
}

TEST(counting_runs_a_function_once_for_the_same_scalars) {
  Options options;
  options.mode = Mode::kTimingOnly;
  options.threads = 1;
  Buffers b;
  int line = 0;
  const auto time = [&] {
    runs = 0;
    launch("scale", CoreKind::kVector, 1, options, b.gm(),
           [&] { scale_kernel(b.x.data(), b.y.data(), true, true, &line); });
    return runs;
  };
  EXPECT(time() <= 1);
}

TEST(a_call_races_like_any_instruction) {
  Buffers b;
  int line = 0;
  std::vector<Report> reports;
  try {
    launch("scale", CoreKind::kVector, 1, {}, b.gm(),
           [&] { scale_kernel(b.x.data(), b.y.data(), false, false, &line); });
  } catch (const TwinError& error) {
    reports = error.reports();
  }
  EXPECT(!reports.empty() && reports[0].check == Check::kRace);
  EXPECT(!reports.empty() && reports[0].message.find("set a flag from MTE2 to VECTOR") != std::string::npos);
}

__simd_vf__ inline void peek(__ubuf__ float* x) {
  RegTensor<float> value;
  Reg::LoadAlign(value, x + 1024);
}

TEST(a_call_may_touch_its_arguments_tensors_only) {
  for (const bool block : {false, true}) {
    std::vector<Report> reports;
    try {
      launch("peek", CoreKind::kVector, 1, {}, {}, [&] {
        LocalTensor<float> one(TPosition::VECIN, 0, 256), other(TPosition::VECIN, 4096, 256);
        other.GetPhyAddr();
        float* x = one.GetPhyAddr();
        if (block) {
          __VEC_SCOPE__ {
            peek(x);
          }
        } else {
          asc_vf_call<peek>(x);
        }
      });
    } catch (const TwinError& error) {
      reports = error.reports();
    }
    EXPECT(reports.empty() == block);
    if (!reports.empty()) EXPECT(reports[0].check == Check::kBounds);
  }
}

TEST(instructions_need_a_vector_function) {
  check::expect_report(
      CoreKind::kVector, Check::kParameter, "outside a vector function", {},
      [] {
        RegTensor<float> value;
        Reg::Duplicate(value, 1.0f);
      },
      __FILE__, __LINE__);
  check::expect_report(
      CoreKind::kCube, Check::kParameter, "has no such pipe", {},
      [] { asc_vf_call<peek>(static_cast<float*>(nullptr)); }, __FILE__, __LINE__);
}

// What a block that faulted has written is cleaned up: the next launch finds it undefined.
TEST(a_fault_leaves_no_defined_bytes) {
  Ub ub;
  const std::vector<Report> reports = ub.run<float>([&](float* in, float* out) {
    RegTensor<float> value;
    MaskReg all = Reg::CreateMask<float>();
    Reg::LoadAlign(value, in);
    Reg::StoreAlign(out, value, all);
    ub.line = __LINE__ + 1;
    Reg::LoadAlign(value, out);
  });
  EXPECT_FAULT(reports, kMemoryOrder, ub.line, "LocalMemBar");
  Ub next;
  EXPECT_CLEAN(next.run<float>([](float*, float*) {}));
  EXPECT(next.out_defined[0] == 0);
}

TEST(casts_follow_the_control_register_at_the_call) {
  static constexpr Reg::CastTrait trait = {Reg::RegLayout::ZERO, Reg::SatMode::NO_SAT, Reg::MaskMergeMode::ZEROING,
                                           RoundMode::CAST_RINT};
  for (const int64_t single : {0, 1}) {
    uint32_t code = 0;
    launch("cast", CoreKind::kVector, 1, {}, {}, [&] {
      SetCtrlSpr<60, 60>(single ? 0 : 1);
      LocalTensor<uint8_t> out(TPosition::VECOUT, 0, 256);
      uint8_t* to = out.GetPhyAddr();
      __VEC_SCOPE__ {
        RegTensor<float> big;
        RegTensor<fp8_e4m3fn_t> codes;
        MaskReg all = Reg::CreateMask<uint8_t>();
        Reg::Duplicate(big, 1e6f);
        Reg::Cast<fp8_e4m3fn_t, float, trait>(codes, big, all);
        Reg::StoreAlign(to, (RegTensor<uint8_t>&)codes, all);
      }
      PipeBarrier<PIPE_ALL>();
      code = out.GetValue(0);
    });
    EXPECT(code == (single ? 0x7Fu : 0x7Eu));
  }
}

int main() {
  return check::run_all();
}
