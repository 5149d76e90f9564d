// Tensors, copies and queues on the machine: what is moved where, what is undefined, and what is refused.
#include "machine_kernels.h"

// --- Undefined bytes ------------------------------------------------------------------------------------------------

TEST(undefined_bytes_do_not_reach_gm) {
  Gm gm;
  int line = 0;
  std::vector<Report> reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    DataCopy(gm.out(), ub(0), 64);
  });
  EXPECT_AT(line, kPoison, "reads byte 0 of UB", reports);
  // 33 bytes are copied in, 34 out.
  reports = gm.vector_kernel([&] {
    DataCopyPad(ub(0), gm.in(), rows(1, 33), no_padding());
    handshake<HardEvent::MTE2_V>();
    vector_add(ub(64), ub(0), 64);  // undefined bytes may be computed with
    handshake<HardEvent::V_MTE3>();
    DataCopyPad(gm.out(), ub(64), rows(1, 33));
    line = __LINE__ + 1;
    DataCopyPad(gm.out()[64], ub(64), rows(1, 34));
  });
  EXPECT_AT(line, kPoison, "reads byte 97 of UB", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    (void)ub(32).GetValue(1);
  });
  EXPECT_AT(line, kPoison, "reads byte 33", reports);
}

TEST(a_launch_starts_with_clean_memories) {
  Gm gm;
  int line = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_CLEAN(gm.vector_kernel([&] { Duplicate(ub(4096 * 3, 8192), uint8_t{1}, 8192); }));
    const std::vector<Report> reports = gm.vector_kernel([&] {
      line = __LINE__ + 1;
      (void)ub(4096 * 3, 8192).GetValue(5000);
    });
    EXPECT_AT(line, kPoison, "", reports);
  }
}

// --- Tensors --------------------------------------------------------------------------------------------------------

TEST(tensors_are_inside_memories_and_aligned) {
  Gm gm;
  int line = 0;
  std::vector<Report> reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    const LocalTensor<float> tensor(TPosition::VECIN, 248 * 1024 - 32, 9);
  });
  EXPECT_AT(line, kBounds, "UB, which has 253952", reports);
  reports = gm.cube_kernel([&] {
    line = __LINE__ + 1;
    const LocalTensor<half> tensor(TPosition::A2, 256, 16);
  });
  EXPECT_AT(line, kAlignment, "multiple of 512", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    (void)ub(0)[65];
  });
  EXPECT_AT(line, kBounds, "index 65 of a tensor of 64 uint8_t", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    ub(0).SetValue(64, 1);
  });
  EXPECT_AT(line, kBounds, "", reports);
  reports = gm.cube_kernel([&] {
    const LocalTensor<fp4x2_e2m1_t> tensor(TPosition::A1, 0, 128);
    EXPECT(tensor.end() == 64 && tensor.GetSize() == 128 && tensor[64].begin() == 32);
    line = __LINE__ + 1;
    (void)tensor[63];
  });
  EXPECT_AT(line, kAlignment, "fp4 index 63", reports);
  Options loose;
  loose.strict_tensor_sizes = false;
  EXPECT_CLEAN(gm.vector_kernel([&] { DataCopy(ub(0)[96], gm.in(), 64); }, loose));
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    DataCopy(ub(32, 32), gm.in(), 64);
  });
  EXPECT_AT(line, kBounds, "needs 64 bytes of a tensor in UB that has 32", reports);
}

TEST(pointers_belong_to_tensors) {
  Gm gm;
  EXPECT_CLEAN(gm.vector_kernel([&] {
    uint8_t* pointer = ub(64)[32].GetPhyAddr();
    (void)ub(64).GetPhyAddr();
    uint64_t begin = 0, end = 0;
    EXPECT(this_core().exposed(pointer, &begin, &end) && begin == 64 && end == 128);
    EXPECT(!this_core().exposed(pointer + 32, &begin, &end));
    EXPECT(ub(64).ReinterpretCast<float>().GetSize() == 16);
    LocalMemAllocator<Hardware::UB> allocator;
    EXPECT((allocator.Alloc<half, 17>().begin() == 0));
    EXPECT(allocator.Alloc<float>(8).begin() == 64);
    EXPECT(allocator.GetCurAddr() == 96);
  }));
}

// --- Copies ---------------------------------------------------------------------------------------------------------

TEST(copies_have_rows_and_padding) {
  Gm gm;
  EXPECT_CLEAN(gm.vector_kernel([&] {
    // Rows of 10 with a gap of 6 in GM; one block of UB left out; two elements before, three behind.
    DataCopyPad(ub(0, 256), gm.in(), rows(3, 10, 6, 1), DataCopyPadExtParams<uint8_t>(true, 2, 3, 77));
    const uint8_t* memory = this_core().memory(Space::kUB);
    const uint8_t* defined = this_core().defined_map(Space::kUB);
    for (int row = 0; row < 3; ++row) {
      for (int i = 0; i < 64; ++i) {
        const bool data = i >= 2 && i < 12;
        EXPECT(defined[row * 64 + i] == (i < 32));
        if (i < 32) EXPECT(memory[row * 64 + i] == (data ? row * 16 + i - 2 : 77));
      }
    }
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(gm.out(), ub(0, 256), rows(3, 12, 1, 4));
  }));
  for (int row = 0; row < 3; ++row) {
    EXPECT(gm.bytes[2048 + row * 16] == 77);
    EXPECT(gm.bytes[2048 + row * 16 + 2] == row * 16);
    EXPECT(gm.bytes[2048 + row * 16 + 12] == static_cast<uint8_t>(row * 16 + 12));  // untouched
  }
}

TEST(compact_copies_pack_rows) {
  Gm gm;
  EXPECT_CLEAN(gm.vector_kernel([&] {
    DataCopyPad<uint8_t, PaddingMode::Compact>(ub(0), gm.in(), rows(3, 10, 6, 1),
                                               DataCopyPadExtParams<uint8_t>(true, 2, 3, 77));
    EXPECT(this_core().memory(Space::kUB)[25] == 37);
    EXPECT(this_core().memory(Space::kUB)[30] == 77 && this_core().memory(Space::kUB)[31] == 77);
    EXPECT(!this_core().defined_map(Space::kUB)[32]);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad<uint8_t, PaddingMode::Compact>(gm.out(), ub(0), rows(3, 10, 0, 2));
  }));
  EXPECT(gm.bytes[2048 + 24] == 32);
}

TEST(padding_that_nobody_gave_is_undefined) {
  Gm gm;
  EXPECT_CLEAN(gm.vector_kernel([&] {
    const uint8_t* memory = this_core().memory(Space::kUB);
    const uint8_t* defined = this_core().defined_map(Space::kUB);
    DataCopyPad(ub(0), gm.in(), rows(1, 10), no_padding());
    DataCopyPad(ub(64), gm.in(), rows(1, 10), DataCopyPadExtParams<uint8_t>(false, 4, 5, 77));
    EXPECT(defined[9] && !defined[10] && !defined[31]);
    EXPECT(!defined[67] && defined[68] && defined[77] && !defined[78]);
    SetPadValue<uint8_t>(55);
    DataCopyPad(ub(128), gm.in(), rows(1, 10), DataCopyPadExtParams<uint8_t>(false, 0, 5, 77));
    EXPECT(memory[138] == 55 && memory[159] == 55 && defined[159]);
    // Nothing is copied, or the same row three times.
    DataCopyPad(ub(256), gm.in(), rows(0, 10), no_padding());
    DataCopyPad(ub(256), gm.in(), rows(3, 0), no_padding());
    EXPECT(!defined[256]);
    DataCopyPad(ub(256, 96), gm.in()[7], rows(3, 32, -32), no_padding());
    EXPECT(memory[256] == 7 && memory[288] == 7 && memory[320] == 7);
  }));
}

TEST(copies_loop) {
  Gm gm;
  EXPECT_CLEAN(gm.vector_kernel([&] {
    SetLoopModePara(LoopModeParams(2, 2, 100, 64, 500, 128), DataCopyMVType::OUT_TO_UB);
    DataCopyPad(ub(0, 256), gm.in(), rows(1, 32), no_padding());
    ResetLoopModePara(DataCopyMVType::OUT_TO_UB);
    const uint8_t* memory = this_core().memory(Space::kUB);
    EXPECT(memory[0] == 0 && memory[64] == 100 && memory[128] == 500 % 256 && memory[192] == 600 % 256);
    EXPECT(this_core().last_record().rows == 4);
  }));
}

TEST(copies_are_refused) {
  Gm gm;
  int line = 0;
  std::vector<Report> reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    DataCopy(ub(0), gm.in(), 33);
  });
  EXPECT_AT(line, kParameter, "a multiple of 32 bytes, use DataCopyPad", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    DataCopyPad(ub(0), gm.in(), rows(4096, 1), no_padding());
  });
  EXPECT_AT(line, kParameter, "blockCount is 0 to 4095", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    DataCopyPad(ub(0), gm.in(), rows(2, 8, -9), no_padding());
  });
  EXPECT_AT(line, kParameter, "a stride of -9; it is -8 to", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    DataCopyPad(ub(0), gm.in(), rows(1, 8), DataCopyPadExtParams<uint8_t>(true, 33, 0, 0));
  });
  EXPECT_AT(line, kParameter, "at most 32", reports);
  reports = gm.vector_kernel([&] {
    line = __LINE__ + 1;
    DataCopyPad(ub(0)[16], gm.in(), rows(1, 8), no_padding());
  });
  EXPECT_AT(line, kAlignment, "multiples of 32", reports);
  reports = gm.vector_kernel([&] {
    Duplicate(ub(0), uint8_t{0}, 64);
    SetAtomicAdd<float>();
    line = __LINE__ + 1;
    DataCopy(gm.out(), ub(0), 64);
  });
  EXPECT_AT(line, kType, "atomic", reports);
  reports = gm.cube_kernel([&] {
    line = __LINE__ + 1;
    DataCopy(gm.out(), LocalTensor<uint8_t>(TPosition::A1, 0, 64), 64);
  });
  EXPECT_AT(line, kParameter, "use Fixpipe for L0C", reports);
}

// --- Queues ---------------------------------------------------------------------------------------------------------

struct Kernel {
  TPipe pipe;
  TQue<QuePosition::VECIN, 2> in;
  TQue<QuePosition::VECOUT, 1> out;
  TBuf<TPosition::VECCALC> work;
  Kernel() {
    pipe.InitBuffer(in, 2, 64);
    pipe.InitBuffer(out, 1, 64);
    pipe.InitBuffer(work, 100);
  }
};

TEST(queues_order_pipes) {
  Gm gm;
  const auto body = [&] {
    Kernel kernel;
    for (uint32_t i = 0; i < 8; ++i) {
      LocalTensor<uint8_t> x = kernel.in.AllocTensor<uint8_t>();
      DataCopy(x, gm.in()[i * 64], 64);
      kernel.in.EnQue(x);
      x = kernel.in.DeQue<uint8_t>();
      LocalTensor<uint8_t> y = kernel.out.AllocTensor<uint8_t>();
      LocalTensor<uint8_t> z = kernel.work.Get<uint8_t>();
      vector_add(z, x, 64);
      vector_add(y, z, 64);
      kernel.out.EnQue(y);
      kernel.in.FreeTensor(x);
      y = kernel.out.DeQue<uint8_t>();
      DataCopy(gm.out()[i * 64], y, 64);
      kernel.out.FreeTensor(y);
    }
  };
  EXPECT_CLEAN(gm.vector_kernel(body));
  for (int i = 0; i < 512; ++i) EXPECT(gm.bytes[2048 + i] == static_cast<uint8_t>(i + 2));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::fill(gm.bytes.begin() + 2048, gm.bytes.end(), uint8_t{0});
    EXPECT_CLEAN(gm.vector_kernel(body, {Mode::kShuffled, seed}));
    for (int i = 0; i < 512; ++i) EXPECT(gm.bytes[2048 + i] == static_cast<uint8_t>(i + 2));
  }
}

TEST(queues_are_used_in_turn) {
  Gm gm;
  int line = 0;
  std::vector<Report> reports = gm.vector_kernel([&] {
    Kernel kernel;
    (void)kernel.in.AllocTensor<uint8_t>();
    (void)kernel.in.AllocTensor<uint8_t>();
    line = __LINE__ + 1;
    (void)kernel.in.AllocTensor<uint8_t>();
  });
  EXPECT_AT(line, kQueue, "all 2 buffers in use", reports);
  reports = gm.vector_kernel([&] {
    Kernel kernel;
    line = __LINE__ + 1;
    (void)kernel.in.DeQue<uint8_t>();
  });
  EXPECT_AT(line, kQueue, "empty queue", reports);
  reports = gm.vector_kernel([&] {
    Kernel kernel;
    line = __LINE__ + 1;
    (void)kernel.in.AllocTensor<uint8_t>();
  });
  EXPECT_AT(line, kQueue, "still allocated when the kernel ends", reports);
  reports = gm.vector_kernel([&] {
    Kernel kernel;
    LocalTensor<uint8_t> x = kernel.in.AllocTensor<uint8_t>();
    line = __LINE__ + 1;
    kernel.out.EnQue(x);
  });
  EXPECT_AT(line, kQueue, "none of this queue's", reports);
  reports = gm.vector_kernel([&] {
    Kernel kernel;
    LocalTensor<uint8_t> x = kernel.in.AllocTensor<uint8_t>();
    kernel.in.FreeTensor(x);
    line = __LINE__ + 1;
    kernel.in.FreeTensor(x);
  });
  EXPECT_AT(line, kQueue, "that is free", reports);
  reports = gm.vector_kernel([&] {
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> queue;
    pipe.InitBuffer(queue, 2, 32);
    const LocalTensor<uint8_t> x = queue.AllocTensor<uint8_t>(), y = queue.AllocTensor<uint8_t>();
    queue.EnQue(x);
    line = __LINE__ + 1;
    queue.EnQue(y);
  });
  EXPECT_AT(line, kQueue, "queue of depth 1", reports);
  reports = gm.vector_kernel([&] {
    TPipe pipe;
    TBuf<> first, second;
    pipe.InitBuffer(first, 200 * 1024);
    line = __LINE__ + 1;
    pipe.InitBuffer(second, 49 * 1024);
  });
  EXPECT_AT(line, kBounds, "InitBuffer", reports);
  reports = gm.vector_kernel([&] {
    Kernel kernel;
    line = __LINE__ + 1;
    (void)kernel.work.Get<float>(33);
  });
  EXPECT_AT(line, kBounds, "of a TBuf of 128 bytes", reports);
}

TEST(event_ids) {
  Gm gm;
  int line = 0;
  const std::vector<Report> reports = gm.vector_kernel([&] {
    TPipe pipe;
    EXPECT(GetTPipePtr() == &pipe);
    EXPECT(pipe.FetchEventID(HardEvent::V_MTE2) == 0);
    EXPECT(pipe.AllocEventID<HardEvent::V_MTE2>() == 0);
    EXPECT(pipe.FetchEventID<HardEvent::V_MTE2>() == 1);
    pipe.ReleaseEventID<HardEvent::V_MTE2>(0);
    line = __LINE__ + 1;
    pipe.ReleaseEventID<HardEvent::V_MTE2>(0);
  });
  EXPECT_AT(line, kFlag, "not allocated", reports);
}

int main() {
  return check::run_all();
}
