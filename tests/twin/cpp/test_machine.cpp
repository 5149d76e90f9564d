// The machine's checks, each once firing at the right line and once silent.
#include "machine_kernels.h"

// --- Order between pipes --------------------------------------------------------------------------------------------

// GM -> UB -> GM with each of the flags left out in turn.
static std::vector<Report> add_one(Gm& gm, bool in_flag, bool out_flag, int* in_line, int* out_line) {
  return gm.vector_kernel([&] {
    DataCopy(ub(0), gm.in(), 64);
    if (in_flag) handshake<HardEvent::MTE2_V>();
    *in_line = __LINE__ + 1;
    vector_add(ub(64), ub(0), 64);
    if (out_flag) handshake<HardEvent::V_MTE3>();
    *out_line = __LINE__ + 1;
    DataCopy(gm.out(), ub(64), 64);
  });
}

TEST(flags_order_pipes) {
  Gm gm;
  int in_line = 0, out_line = 0;
  EXPECT_CLEAN(add_one(gm, true, true, &in_line, &out_line));
  for (int i = 0; i < 64; ++i) EXPECT(gm.bytes[2048 + i] == i + 1);
  std::vector<Report> reports = add_one(gm, false, true, &in_line, &out_line);
  EXPECT_AT(in_line, kRace, "set a flag from MTE2 to VECTOR", reports);
  reports = add_one(gm, true, false, &in_line, &out_line);
  EXPECT_AT(out_line, kRace, "MTE3 reads bytes 64 to 96 of UB while VECTOR may still write them", reports);
}

TEST(a_buffer_is_written_again) {
  Gm gm;
  for (const bool guarded : {true, false}) {
    int line = 0;
    const std::vector<Report> reports = gm.vector_kernel([&] {
      DataCopy(ub(0), gm.in(), 64);
      handshake<HardEvent::MTE2_V>();
      vector_add(ub(64), ub(0), 64);
      if (guarded) handshake<HardEvent::V_MTE2>();
      line = __LINE__ + 1;
      DataCopy(ub(0), gm.in(), 64);
    });
    if (guarded) {
      EXPECT_CLEAN(reports);
    } else {
      EXPECT_AT(line, kRace, "MTE2 writes", reports);
    }
  }
}

TEST(copy_pipes_do_not_complete_in_order) {
  Gm gm;
  for (const bool guarded : {true, false}) {
    int line = 0;
    const std::vector<Report> reports = gm.vector_kernel([&] {
      DataCopy(ub(0), gm.in(), 64);
      if (guarded) PipeBarrier<PIPE_MTE2>();
      line = __LINE__ + 1;
      DataCopy(ub(32), gm.in(), 64);
    });
    if (guarded) {
      EXPECT_CLEAN(reports);
    } else {
      EXPECT_AT(line, kRace, "put PipeBarrier<PIPE_MTE2> or a flag between them", reports);
    }
  }
}

TEST(a_barrier_of_all_pipes_orders_everything) {
  Gm gm;
  EXPECT_CLEAN(gm.vector_kernel([&] {
    DataCopy(ub(0), gm.in(), 64);
    PipeBarrier<PIPE_ALL>();
    vector_add(ub(64), ub(0), 64);
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm.out(), ub(64), 64);
  }));
}

TEST(order_passes_through_a_third_pipe) {
  Gm gm;
  EXPECT_CLEAN(gm.vector_kernel([&] {
    DataCopy(ub(0), gm.in(), 64);
    handshake<HardEvent::MTE2_V>();
    handshake<HardEvent::V_MTE3>();
    DataCopy(gm.out(), ub(0), 64);
  }));
}

TEST(the_scalar_unit_needs_flags_too) {
  Gm gm;
  for (const bool guarded : {true, false}) {
    int line = 0;
    const std::vector<Report> reports = gm.vector_kernel([&] {
      DataCopy(ub(0), gm.in(), 64);
      if (guarded) handshake<HardEvent::MTE2_S>();
      line = __LINE__ + 1;
      EXPECT(ub(0).GetValue(5) == 5);
      // The scalar unit waited for the copy, so what it issues now comes after it.
      vector_add(ub(64), ub(0), 64);
      ub(128).SetValue(0, 7);
      handshake<HardEvent::S_V>();
      vector_add(ub(128), ub(128), 1);
      handshake<HardEvent::V_S>();
      EXPECT(ub(128).GetValue(0) == 8);
    });
    if (guarded) {
      EXPECT_CLEAN(reports);
    } else {
      EXPECT_AT(line, kRace, "SCALAR reads", reports);
    }
  }
  int line = 0;
  const std::vector<Report> reports = gm.vector_kernel([&] {
    ub(0).SetValue(0, 7);
    line = __LINE__ + 1;
    vector_add(ub(0), ub(0), 1);
  });
  EXPECT_AT(line, kRace, "while SCALAR may still write", reports);
}

TEST(small_products_need_a_barrier) {
  Gm gm;
  int line = 0;
  const auto twice = [&](uint16_t m, uint8_t unit_flag, bool barrier) {
    return gm.cube_kernel([&, m, unit_flag, barrier] {
      product(m, 48, unit_flag);
      if (barrier) PipeBarrier<PIPE_M>();
      line = __LINE__ + 1;
      product(m, 48, unit_flag);
    });
  };
  std::vector<Report> reports = twice(48, 0, false);
  EXPECT_AT(line, kRace, "put PipeBarrier<PIPE_M> between them", reports);
  EXPECT_CLEAN(twice(48, 0, true));
  EXPECT_CLEAN(twice(64, 0, false));  // 4 x 3 blocks
  EXPECT_CLEAN(twice(48, 2, false));
}

TEST(loads_wait_for_products) {
  Gm gm;
  for (const bool guarded : {true, false}) {
    int line = 0;
    const std::vector<Report> reports = gm.cube_kernel([&] {
      load(0);
      handshake<HardEvent::MTE1_M>();
      product(64, 64);
      if (guarded) handshake<HardEvent::M_MTE1>();
      line = __LINE__ + 1;
      load(0);
    });
    if (guarded) {
      EXPECT_CLEAN(reports);
    } else {
      EXPECT_AT(line, kRace, "MTE1 writes bytes 0 to 32 of L0A", reports);
    }
  }
}

// --- Flags ----------------------------------------------------------------------------------------------------------

TEST(flags_are_set_and_waited_for_once) {
  Gm gm;
  int line = 0;
  std::vector<Report> reports = gm.vector_kernel([&] {
    SetFlag<HardEvent::MTE2_V>(1);
    line = __LINE__ + 1;
    SetFlag<HardEvent::MTE2_V>(1);
  });
  EXPECT_AT(line, kFlag, "a second time", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    WaitFlag<HardEvent::MTE2_V>(0);
  });
  EXPECT_AT(line, kFlag, "would wait for ever", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    SetFlag<HardEvent::V_MTE2>(3);
  });
  EXPECT_AT(line, kFlag, "still set when the kernel ends", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    SetFlag<HardEvent::V_MTE2>(6);
  });
  EXPECT_AT(line, kFlag, "reserved", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    SetFlag<HardEvent::V_MTE2>(8);
  });
  EXPECT_AT(line, kFlag, "does not exist", reports);
  // Ids of different pairs of pipes are different flags.
  EXPECT_CLEAN(gm.vector_kernel([&] {
    SetFlag<HardEvent::MTE2_V>(0);
    SetFlag<HardEvent::V_MTE2>(0);
    SetFlag<HardEvent::MTE2_V>(1);
    WaitFlag<HardEvent::MTE2_V>(1);
    WaitFlag<HardEvent::V_MTE2>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
  }));
}

TEST(pipes_that_a_core_lacks) {
  Gm gm;
  int line = 0;
  std::vector<Report> reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    product(16, 16);
  });
  EXPECT_AT(line, kParameter, "pipe CUBE on a vector core", reports);
  reports = gm.cube_kernel([&] {
    line = __LINE__ + 1;
    SetFlag<HardEvent::MTE2_V>(0);
  });
  EXPECT_AT(line, kParameter, "no pipe VECTOR", reports);
}

TEST(a_mutex_orders_pipes) {
  Gm gm;
  int line = 0;
  for (const bool guarded : {true, false}) {
    const std::vector<Report> reports = gm.vector_kernel([&] {
      Mutex::Lock<PIPE_MTE2>(3);
      DataCopy(ub(0), gm.in(), 64);
      Mutex::Unlock<PIPE_MTE2>(3);
      if (guarded) Mutex::Lock<PIPE_V>(3);
      line = __LINE__ + 1;
      vector_add(ub(64), ub(0), 64);
      if (guarded) Mutex::Unlock<PIPE_V>(3);
    });
    if (guarded) {
      EXPECT_CLEAN(reports);
    } else {
      EXPECT_AT(line, kRace, "VECTOR reads", reports);
    }
  }
}

// --- GM -------------------------------------------------------------------------------------------------------------

TEST(blocks_must_not_share_what_they_write) {
  Gm gm;
  int line = 0;
  const auto write = [&](uint32_t step, bool atomic) {
    return gm.vector_kernel(
        [&, step, atomic] {
          Duplicate(ub(0).ReinterpretCast<int8_t>(), static_cast<int8_t>(1), 64);
          handshake<HardEvent::V_MTE3>();
          GlobalTensor<int8_t> out = gm.out().ReinterpretCast<int8_t>();
          if (atomic) SetAtomicAdd<int8_t>();
          line = __LINE__ + 1;
          DataCopyPad(out[GetBlockIdx() * step], ub(0).ReinterpretCast<int8_t>(), rows(1, 33));
          SetAtomicNone();
        },
        {}, 8);
  };
  EXPECT_CLEAN(write(33, false));
  const std::vector<Report> reports = write(32, false);
  EXPECT_AT(line, kCoreRace, "blocks of a launch have no order", reports);
  std::fill(gm.bytes.begin(), gm.bytes.end(), uint8_t{0});
  EXPECT_CLEAN(write(0, true));
  EXPECT(gm.bytes[2048] == 8);
}

TEST(blocks_must_not_read_what_others_write) {
  Gm gm;
  int line = 0;
  const auto kernel = [&](bool own) {
    return gm.vector_kernel(
        [&, own] {
          const int64_t me = GetBlockIdx() * 64;
          const int64_t source = own ? me : (GetBlockIdx() + 1) % GetBlockNum() * 64;
          DataCopy(ub(0), gm.in()[source], 64);
          handshake<HardEvent::MTE2_V>();
          handshake<HardEvent::V_MTE3>();
          line = __LINE__ + 1;
          DataCopy(gm.in()[me], ub(0), 64);
        },
        {}, 4);
  };
  EXPECT_CLEAN(kernel(true));
  const std::vector<Report> reports = kernel(false);
  EXPECT_AT(line, kCoreRace, "reads", reports);
}

TEST(a_block_orders_its_own_gm) {
  Gm gm;
  int line = 0;
  for (const bool guarded : {true, false}) {
    const std::vector<Report> reports = gm.vector_kernel([&] {
      Duplicate(ub(0), uint8_t{9}, 64);
      handshake<HardEvent::V_MTE3>();
      DataCopy(gm.out(), ub(0), 64);
      if (guarded) handshake<HardEvent::MTE3_MTE2>();
      line = __LINE__ + 1;
      DataCopy(ub(64), gm.out(), 64);
    });
    if (guarded) {
      EXPECT_CLEAN(reports);
    } else {
      EXPECT_AT(line, kRace, "MTE2 reads 64 bytes of GM while MTE3 may still write them", reports);
    }
  }
  // Rows that interleave do not overlap.
  EXPECT_CLEAN(gm.vector_kernel([&] {
    Duplicate(ub(0, 256), uint8_t{9}, 256);
    handshake<HardEvent::V_MTE3>();
    DataCopyPad(gm.out(), ub(0, 256), rows(4, 8, 0, 8));
    DataCopyPad(gm.out()[8], ub(0, 256), rows(4, 8, 0, 8));
  }));
}

TEST(gm_bounds) {
  Gm gm;
  int line = 0;
  std::vector<Report> reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    DataCopy(ub(0), gm.in()[2016], 64);  // from one tensor into the next
  });
  EXPECT_AT(line, kBounds, "2016 bytes into a tensor of 2048", reports);
  reports = gm.vector_kernel([&] {
    GlobalTensor<uint8_t> part;
    part.SetGlobalBuffer(gm.bytes.data(), 100);
    line = __LINE__ + 1;
    DataCopy(ub(0), part[64], 64);
  });
  EXPECT_AT(line, kBounds, "28 bytes past the end of the GlobalTensor", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    (void)gm.out().GetValue(2048);
  });
  EXPECT_AT(line, kBounds, "", reports);
  EXPECT_CLEAN(gm.vector_kernel([&] { EXPECT(gm.in().GetValue(2047) == gm.bytes[2047]); }));
}

int main() {
  return check::run_all();
}
