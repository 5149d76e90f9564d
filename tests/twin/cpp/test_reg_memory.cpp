// Loads and stores of the register API: every distribution, unaligned ones, and what is refused.
#include "reg_kernels.h"

using Reg::LoadDist;
using Reg::MaskReg;
using Reg::PostLiteral;
using Reg::RegTensor;
using Reg::StoreDist;

// Loads with a distribution and stores the register whole.
template <typename T, LoadDist DIST>
static void expect_load(const std::vector<int>& from, uint32_t bytes) {  // element of each lane, -1: zero
  Ub ub;
  EXPECT_CLEAN(ub.run<T>([](T* in, T* out) {
    RegTensor<T> reg;
    Reg::LoadAlign<T, DIST>(reg, in);
    MaskReg all = Reg::CreateMask<T>();
    Reg::StoreAlign(out, reg, all);
  }));
  bool same = true;
  for (uint32_t i = 0; i < 256 / sizeof(T); ++i) {
    same = same && ub.result<T>(i) == (from[i] < 0 ? T{0} : ub.input<T>(static_cast<uint32_t>(from[i])));
  }
  EXPECT(same);
  // An undefined byte makes undefined exactly the lanes that it goes to.
  const uint32_t bad = bytes - 1;
  ub.in_defined[bad] = 0;
  EXPECT_CLEAN(ub.run<T>([](T* in, T* out) {
    RegTensor<T> reg;
    Reg::LoadAlign<T, DIST>(reg, in);
    MaskReg all = Reg::CreateMask<uint8_t>();
    Reg::StoreAlign<uint8_t>(reinterpret_cast<uint8_t*>(out), (RegTensor<uint8_t>&)reg, all);
  }));
  bool tainted = true;
  for (uint32_t i = 0; i < 256; ++i) {
    const int element = from[i / sizeof(T)];
    const bool undefined = element >= 0 && static_cast<uint32_t>(element) * sizeof(T) + i % sizeof(T) == bad;
    tainted = tainted && ub.out_defined[i] == (undefined ? 0 : 1);
  }
  EXPECT(tainted);
}

template <typename F>
static std::vector<int> lane_map(int lanes, F f) {
  std::vector<int> map;
  for (int i = 0; i < lanes; ++i) map.push_back(f(i));
  return map;
}

TEST(load_distributions) {
  expect_load<uint8_t, LoadDist::DIST_NORM>(lane_map(256, [](int i) { return i; }), 256);
  expect_load<uint16_t, LoadDist::DIST_NORM>(lane_map(128, [](int i) { return i; }), 256);
  expect_load<uint32_t, LoadDist::DIST_NORM>(lane_map(64, [](int i) { return i; }), 256);
  expect_load<uint8_t, LoadDist::DIST_BRC_B8>(lane_map(256, [](int) { return 0; }), 1);
  expect_load<uint16_t, LoadDist::DIST_BRC_B16>(lane_map(128, [](int) { return 0; }), 2);
  expect_load<uint32_t, LoadDist::DIST_BRC_B32>(lane_map(64, [](int) { return 0; }), 4);
  expect_load<uint8_t, LoadDist::DIST_US_B8>(lane_map(256, [](int i) { return i / 2; }), 128);
  expect_load<uint16_t, LoadDist::DIST_US_B16>(lane_map(128, [](int i) { return i / 2; }), 128);
  expect_load<uint8_t, LoadDist::DIST_DS_B8>(lane_map(256, [](int i) { return 2 * i; }), 511);
  expect_load<uint16_t, LoadDist::DIST_DS_B16>(lane_map(128, [](int i) { return 2 * i; }), 510);
  expect_load<uint8_t, LoadDist::DIST_UNPACK_B8>(lane_map(256, [](int i) { return i % 2 ? -1 : i / 2; }), 128);
  expect_load<uint16_t, LoadDist::DIST_UNPACK_B16>(lane_map(128, [](int i) { return i % 2 ? -1 : i / 2; }), 128);
  expect_load<uint32_t, LoadDist::DIST_UNPACK_B32>(lane_map(64, [](int i) { return i % 2 ? -1 : i / 2; }), 128);
  expect_load<uint8_t, LoadDist::DIST_UNPACK4_B8>(lane_map(256, [](int i) { return i % 4 ? -1 : i / 4; }), 64);
  expect_load<uint16_t, LoadDist::DIST_BLK>(lane_map(128, [](int i) { return i % 16; }), 32);
  expect_load<uint16_t, LoadDist::DIST_E2B_B16>(lane_map(128, [](int i) { return i / 16; }), 16);
  expect_load<uint32_t, LoadDist::DIST_E2B_B32>(lane_map(64, [](int i) { return i / 8; }), 32);
}

template <typename T, LoadDist LOAD, StoreDist STORE>
static void expect_pairs() {
  Ub ub;
  constexpr uint32_t n = 256 / sizeof(T);
  ub.in_defined[5] = 0;
  EXPECT_CLEAN(ub.run<T>([](T* in, T* out) {
    RegTensor<T> even, odd;
    T* from = in;
    Reg::LoadAlign<T, PostLiteral::POST_MODE_UPDATE, LOAD>(even, odd, from, 2 * n);
    MaskReg none = Reg::CreateMask<T, Reg::MaskPattern::ALLF>();
    MaskReg all = Reg::CreateMask<T>();
    Reg::StoreAlign(out, even, all);
    Reg::StoreAlign(out + n, odd, all);
    Reg::StoreAlign<T, STORE>(out + 2 * n, even, odd, none);  // ignores the mask
    EXPECT(from == in + 2 * n);
  }));
  bool same = true;
  for (uint32_t i = 0; i < n; ++i) {
    same = same && ub.result<T>(i) == ub.input<T>(2 * i) && ub.result<T>(n + i) == ub.input<T>(2 * i + 1);
  }
  EXPECT(same);
  EXPECT(std::memcmp(ub.out.data() + 512, ub.in.data(), 512) == 0);
  EXPECT(std::memcmp(ub.out_defined.data() + 512, ub.in_defined.data(), 512) == 0);
}

TEST(two_registers) {
  expect_pairs<uint8_t, LoadDist::DIST_DINTLV_B8, StoreDist::DIST_INTLV_B8>();
  expect_pairs<uint16_t, LoadDist::DIST_DINTLV_B16, StoreDist::DIST_INTLV_B16>();
  expect_pairs<uint32_t, LoadDist::DIST_DINTLV_B32, StoreDist::DIST_INTLV_B32>();
}

// Stores `count` lanes of W with a distribution that writes the low bytes of N.
template <typename T, typename W, typename N, StoreDist DIST>
static void expect_store() {
  for (const uint32_t count : {0u, 1u, 13u, static_cast<uint32_t>(256 / sizeof(W))}) {
    Ub ub;
    EXPECT_CLEAN(ub.run<T>([&](T* in, T* out) {
      RegTensor<T> reg;
      Reg::LoadAlign(reg, in);
      uint32_t left = count;
      MaskReg mask = Reg::UpdateMask<W>(left);
      Reg::StoreAlign<T, DIST>(out, reg, mask);
    }));
    bool same = true;
    for (uint32_t i = 0; i < 256 / sizeof(W); ++i) {
      const bool written = i < count;
      for (uint32_t b = 0; b < sizeof(N); ++b) {
        const uint32_t at = i * sizeof(N) + b;
        same = same && ub.out_defined[at] == written && (!written || ub.out[at] == ub.in[i * sizeof(W) + b]);
      }
    }
    EXPECT(same);
    EXPECT(ub.out_defined[256 / sizeof(W) * sizeof(N)] == 0);
  }
}

TEST(store_distributions) {
  expect_store<uint8_t, uint8_t, uint8_t, StoreDist::DIST_NORM>();
  expect_store<half, uint16_t, uint16_t, StoreDist::DIST_NORM>();
  expect_store<float, uint32_t, uint32_t, StoreDist::DIST_NORM>();
  expect_store<uint8_t, uint8_t, uint8_t, StoreDist::DIST_NORM_B8>();
  expect_store<uint16_t, uint16_t, uint16_t, StoreDist::DIST_NORM_B16>();
  expect_store<uint32_t, uint32_t, uint32_t, StoreDist::DIST_NORM_B32>();
  expect_store<uint8_t, uint16_t, uint8_t, StoreDist::DIST_PACK_B16>();
  expect_store<half, uint32_t, uint16_t, StoreDist::DIST_PACK_B32>();
  expect_store<uint32_t, uint64_t, uint32_t, StoreDist::DIST_PACK_B64>();
  expect_store<uint8_t, uint32_t, uint8_t, StoreDist::DIST_PACK4_B32>();
}

TEST(first_element_ignores_the_mask) {
  Ub ub;
  EXPECT_CLEAN(ub.run<float>([](float* in, float* out) {
    RegTensor<float> reg;
    Reg::LoadAlign(reg, in);
    MaskReg none = Reg::CreateMask<float, Reg::MaskPattern::ALLF>();
    Reg::StoreAlign<float, StoreDist::DIST_FIRST_ELEMENT_B32>(out + 3, reg, none);
    Reg::StoreAlign<float, StoreDist::DIST_FIRST_ELEMENT_B16>(out + 5, reg, none);
    Reg::StoreAlign<float, StoreDist::DIST_FIRST_ELEMENT_B8>(out + 7, reg, none);
  }));
  const std::vector<int> written = {12, 13, 14, 15, 20, 21, 28};
  for (int i = 0; i < 32; ++i) {
    const bool expected = std::find(written.begin(), written.end(), i) != written.end();
    EXPECT(ub.out_defined[static_cast<size_t>(i)] == expected);
  }
  EXPECT(std::memcmp(ub.out.data() + 12, ub.in.data(), 4) == 0);
}

TEST(unaligned_stores_need_the_last_post) {
  for (const bool post : {true, false}) {
    Ub ub;
    EXPECT_CLEAN(ub.run<uint16_t>([&](uint16_t* in, uint16_t* out) {
      RegTensor<uint16_t> reg;
      Reg::UnalignRegForStore kept;
      uint16_t* to = out + 3;
      for (int i = 0; i < 5; ++i) {
        Reg::LoadAlign(reg, in + 128 * i);
        Reg::StoreUnAlign(to, reg, kept, 11);
      }
      EXPECT(to == out + 3 + 55);
      if (post) Reg::StoreUnAlignPost(to, kept, 0);
    }));
    bool same = true;
    for (uint32_t i = 0; i < 128; ++i) {
      const bool inside = i >= 3 && i < 58;
      const bool written = inside && (post || i < 48);  // 48 elements: the last whole 32 bytes
      same = same && ub.out_defined[2 * i] == written;
      if (written) same = same && ub.result<uint16_t>(i) == ub.input<uint16_t>((i - 3) / 11 * 128 + (i - 3) % 11);
    }
    EXPECT(same);
  }
}

TEST(unaligned_store_of_a_few_bytes_within_a_block) {
  Ub ub;
  EXPECT_CLEAN(ub.run<uint8_t>([&](uint8_t* in, uint8_t* out) {
    RegTensor<uint8_t> reg;
    Reg::UnalignRegForStore kept;
    Reg::LoadAlign(reg, in);
    uint8_t* to = out + 5;
    for (int i = 0; i < 3; ++i) Reg::StoreUnAlign(to, reg, kept, 4);
    Reg::StoreUnAlignPost(to, kept, 0);
    Reg::Store(out + 101, reg, 200);
  }));
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT(ub.out_defined[i] == (i >= 5 && i < 17));
    if (i >= 5 && i < 17) EXPECT(ub.out[i] == ub.in[(i - 5) % 4]);
  }
  EXPECT(ub.out_defined[100] == 0 && ub.out_defined[301] == 0);
  EXPECT(std::memcmp(ub.out.data() + 101, ub.in.data(), 200) == 0);
}

TEST(unaligned_loads) {
  Ub ub;
  ub.in_defined[70] = 0;
  EXPECT_CLEAN(ub.run<uint8_t>([&](uint8_t* in, uint8_t* out) {
    RegTensor<uint8_t> reg;
    Reg::UnalignRegForLoad kept;
    MaskReg all = Reg::CreateMask<uint8_t>();
    uint8_t* from = in + 50;
    Reg::LoadUnAlignPre(kept, from);
    for (int i = 0; i < 3; ++i) {
      Reg::LoadUnAlign(reg, kept, from, 256);
      Reg::StoreAlign(out + 256 * i, reg, all);
    }
    Reg::Load(reg, in + 33);
    Reg::StoreAlign(out + 1024, reg, all);
  }));
  EXPECT(std::memcmp(ub.out.data(), ub.in.data() + 50, 768) == 0);
  EXPECT(std::memcmp(ub.out_defined.data(), ub.in_defined.data() + 50, 768) == 0);
  EXPECT(std::memcmp(ub.out.data() + 1024, ub.in.data() + 33, 256) == 0);
  const std::vector<Report> reports = ub.run<uint8_t>([&](uint8_t* in, uint8_t*) {
    RegTensor<uint8_t> reg;
    Reg::UnalignRegForLoad kept;
    Reg::LoadUnAlignPre(kept, in);
    ub.line = __LINE__ + 1;
    Reg::LoadUnAlign(reg, kept, in + 50);
  });
  EXPECT_FAULT(reports, kParameter, ub.line, "call LoadUnAlignPre for this address first");
}

TEST(a_store_elsewhere_needs_the_post) {
  Ub ub;
  const std::vector<Report> reports = ub.run<uint8_t>([&](uint8_t* in, uint8_t* out) {
    RegTensor<uint8_t> reg;
    Reg::UnalignRegForStore kept;
    Reg::LoadAlign(reg, in);
    uint8_t* to = out + 5;
    Reg::StoreUnAlign(to, reg, kept, 4);
    to += 8;
    ub.line = __LINE__ + 1;
    Reg::StoreUnAlign(to, reg, kept, 4);
  });
  EXPECT_FAULT(reports, kParameter, ub.line, "call StoreUnAlignPost before another address");
}

TEST(address_registers) {
  Ub ub;
  EXPECT_CLEAN(ub.run<uint16_t>([](uint16_t* in, uint16_t* out) {
    MaskReg all = Reg::CreateMask<uint16_t>();
    for (uint16_t i = 0; i < 2; ++i) {
      for (uint16_t j = 0; j < 3; ++j) {
        Reg::AddrReg at = Reg::CreateAddrReg<uint16_t>(i, 512, j, 128);
        RegTensor<uint16_t> reg;
        Reg::LoadAlign(reg, in, at);
        Reg::StoreAlign(out, reg, at, all);
      }
    }
  }));
  EXPECT(std::memcmp(ub.out.data(), ub.in.data(), 768) == 0);
  EXPECT(std::memcmp(ub.out.data() + 1024, ub.in.data() + 1024, 768) == 0);
}

TEST(a_load_after_a_store_needs_a_barrier) {
  for (const int barrier : {0, 1, 2}) {
    Ub ub;
    const std::vector<Report> reports = ub.run<float>([&](float* in, float* out) {
      RegTensor<float> a, b;
      uint32_t count = 5;
      MaskReg some = Reg::UpdateMask<float>(count);
      Reg::LoadAlign(a, in);
      Reg::StoreAlign(out, a, some);
      Reg::LoadAlign(b, out + 8);  // bytes that were not stored: fine
      if (barrier == 1) Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>();
      if (barrier == 2) Reg::LocalMemBar<Reg::MemType::VEC_LOAD, Reg::MemType::VEC_STORE>();  // the wrong way round
      ub.line = __LINE__ + 1;
      Reg::LoadAlign(b, out);
    });
    if (barrier == 1) {
      EXPECT_CLEAN(reports);
      EXPECT(ub.counts.barriers == 1);
    } else {
      EXPECT_FAULT(reports, kMemoryOrder, ub.line, "LocalMemBar");
    }
  }
}

TEST(accesses_stay_inside_the_tensors) {
  Ub ub;
  std::vector<Report> reports = ub.run<uint8_t>([&](uint8_t* in, uint8_t*) {
    RegTensor<uint8_t> reg;
    ub.line = __LINE__ + 1;
    Reg::LoadAlign(reg, in + kBytes - 224);
  });
  EXPECT_FAULT(reports, kBounds, ub.line, "loads bytes 3872 to 4128 of UB, outside every tensor");
  reports = ub.run<uint8_t>([&](uint8_t* in, uint8_t* out) {
    RegTensor<uint8_t> reg;
    Reg::LoadAlign(reg, in);
    uint32_t count = 224;
    MaskReg mask = Reg::UpdateMask<uint8_t>(count);
    Reg::StoreAlign(out + kBytes - 224, reg, mask);  // what the mask leaves out may hang over
    count = 225;
    mask = Reg::UpdateMask<uint8_t>(count);
    ub.line = __LINE__ + 1;
    Reg::StoreAlign(out + kBytes - 224, reg, mask);
  });
  EXPECT_FAULT(reports, kBounds, ub.line, "stores bytes 12064 to 12289");
  // An interleaving store ignores its mask: 512 bytes, also where only 256 of them are wanted.
  reports = ub.run<uint8_t>([&](uint8_t* in, uint8_t* out) {
    RegTensor<uint8_t> reg;
    Reg::LoadAlign(reg, in);
    uint32_t count = 128;
    MaskReg mask = Reg::UpdateMask<uint8_t>(count);
    Reg::StoreAlign<uint8_t, StoreDist::DIST_INTLV_B8>(out + kBytes - 512, reg, reg, mask);
    ub.line = __LINE__ + 1;
    Reg::StoreAlign<uint8_t, StoreDist::DIST_INTLV_B8>(out + kBytes - 256, reg, reg, mask);
  });
  EXPECT_FAULT(reports, kBounds, ub.line, "an interleaving one two registers");
  Options lenient;
  lenient.strict_tensor_sizes = false;
  EXPECT_CLEAN(ub.run<uint8_t>(
      [](uint8_t* in, uint8_t*) {
        RegTensor<uint8_t> reg;
        Reg::LoadAlign(reg, in + kBytes - 224);
      },
      lenient));
  static uint8_t elsewhere[512];
  reports = ub.run<uint8_t>([&](uint8_t*, uint8_t*) {
    RegTensor<uint8_t> reg;
    ub.line = __LINE__ + 1;
    Reg::LoadAlign<uint8_t, LoadDist::DIST_BRC_B8>(reg, elsewhere);
  });
  EXPECT_FAULT(reports, kBounds, ub.line, "a pointer that is not into UB");
  reports = ub.run<uint16_t>([&](uint16_t* in, uint16_t*) {
    RegTensor<uint16_t> reg;
    Reg::LoadAlign<uint16_t, LoadDist::DIST_E2B_B16>(reg, in + 8);
    ub.line = __LINE__ + 1;
    Reg::LoadAlign(reg, in + 8);
  });
  EXPECT_FAULT(reports, kAlignment, ub.line, "multiple of 32");
}

TEST(counts_of_memory_instructions) {
  Ub ub;
  EXPECT_CLEAN(ub.run<uint16_t>([](uint16_t* in, uint16_t* out) {
    RegTensor<uint16_t> a, b;
    MaskReg all = Reg::CreateMask<uint16_t>();                                   // issued, 1 cycle
    Reg::LoadAlign(a, in);                                                       // 1 load
    Reg::LoadAlign<uint16_t, LoadDist::DIST_DINTLV_B16>(a, b, in);               // 2 loads, single
    Reg::StoreAlign(out, a, all);                                                // 1 store, single
    Reg::StoreAlign<uint16_t, StoreDist::DIST_INTLV_B16>(out + 128, a, b, all);  // 2 stores, single
  }));
  EXPECT(ub.counts.issued == 5 && ub.counts.single == 3 && ub.counts.loads == 3 && ub.counts.stores == 3);
  EXPECT(ub.counts.execute_cycles == 1);
}

int main() {
  return check::run_all();
}
