"""The fault-injection suite: small mistakes in the kernels and tilings of csrc/ascend, and who must notice each.

A mutation replaces text that occurs exactly once in its file. `expected` is the check of the twin (csrc/twin/machine.h)
that reports it, WRONG where no rule of the device is broken and only the results show it, or DOES_NOT_COMPILE.
"""

from __future__ import annotations

from dataclasses import dataclass

WRONG = "wrong values"
DOES_NOT_COMPILE = "does not compile"


@dataclass(frozen=True)
class Mutation:
    """`program` is a driver of tests/twin/cpp. `more` are edits in other places that belong to the same mistake."""

    name: str
    program: str
    file: str
    old: str
    new: str
    expected: str
    more: tuple[tuple[str, str, str], ...] = ()

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]:
        return ((self.file, self.old, self.new), *self.more)


BLOCK = "kernels/block_mmad.h"
OPERAND = "kernels/matmul_operand.h"
SCHEDULE = "kernels/matmul_schedule.h"
CUBE_TILING = "tiling/matmul_tiling.cpp"


def cube(name: str, file: str, old: str, new: str, expected: str, *more: tuple[str, str, str]) -> Mutation:
    return Mutation(name, "mutants_matmul", file, old, new, expected, more)


def quant(name: str, file: str, old: str, new: str, expected: str, *more: tuple[str, str, str]) -> Mutation:
    return Mutation(name, "mutants_quant", file, old, new, expected, more)


def floats(name: str, file: str, old: str, new: str, expected: str, *more: tuple[str, str, str]) -> Mutation:
    return Mutation(name, "mutants_floats", file, old, new, expected, more)


def to_block(name: str, file: str, old: str, new: str, expected: str, *more: tuple[str, str, str]) -> Mutation:
    return Mutation(name, "mutants_to_block", file, old, new, expected, more)


CUBE_SYNC = [
    cube(
        "the wait for a chunk in L1 is dropped",
        BLOCK,
        "        AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(static_cast<int32_t>(stage));\n",
        "",
        "race",
    ),
    cube(
        "the wait for the scales in L1 is dropped",
        BLOCK,
        "if (first_scaled) AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(scale_event);",
        "",
        "flag",
    ),
    cube(
        "a chunk is never announced",
        BLOCK,
        "    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(static_cast<int32_t>(stage));\n",
        "",
        "flag",
    ),
    cube(
        "a stage of L1 is taken without waiting for it",
        BLOCK,
        "    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(static_cast<int32_t>(stage));\n    a_.CopyChunk",
        "    a_.CopyChunk",
        "flag",
    ),
    cube(
        "a stage of L1 is given back after the first step",
        BLOCK,
        "if (last) AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(static_cast<int32_t>(stage));",
        "if (begin == 0) AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(static_cast<int32_t>(stage));",
        "race",
    ),
    cube(
        "SetFlag and WaitFlag of L0 are swapped: set before the loads, waited for before them",
        BLOCK,
        "      const auto scale_at = ",
        "      AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(static_cast<int32_t>(l0));\n      const auto scale_at = ",
        "race",
        (
            BLOCK,
            "      AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(static_cast<int32_t>(l0));\n      if (last) Asc",
            "      if (last) Asc",
        ),
    ),
    cube(
        "a slot of L0 is given back before the Mmad that reads it",
        BLOCK,
        "      Multiply(tile, l0, length, first, last && last_chunk);\n"
        "      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(static_cast<int32_t>(l0));\n",
        "      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(static_cast<int32_t>(l0));\n"
        "      Multiply(tile, l0, length, first, last && last_chunk);\n",
        "race",
    ),
    cube(
        "the wait before the Mmad names the other slot",
        BLOCK,
        "AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(static_cast<int32_t>(l0));",
        "AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(static_cast<int32_t>(1 - l0));",
        "flag",
    ),
    cube(
        "the events of scales and chunks collide",
        BLOCK,
        "constexpr int32_t kScaleEvent = kMaxStages;",
        "constexpr int32_t kScaleEvent = kMaxStages - 3;",
        "flag",
    ),
    cube(
        "an event id of the system",
        BLOCK,
        "constexpr int32_t kScaleEvent = kMaxStages;",
        "constexpr int32_t kScaleEvent = kMaxStages + 1;",
        "flag",
    ),
    cube(
        "the flags that were set at the start are not drained",
        BLOCK,
        "      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(static_cast<int32_t>(stage));\n    }\n    for (int32_t slot",
        "    }\n    for (int32_t slot",
        "flag",
    ),
    cube(
        "small products follow each other without PipeBarrier<PIPE_M>",
        BLOCK,
        "AscendC::PipeBarrier<PIPE_M>();",
        "",
        "race",
    ),
    cube(
        "a tile takes L0C without waiting for the last store",
        BLOCK,
        "      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(EVENT_ID0);\n"
        "      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(EVENT_ID0);\n",
        "",
        "race",
    ),
    cube(
        "a store does not wait for the products",
        BLOCK,
        "      AscendC::SetFlag<AscendC::HardEvent::M_FIX>(EVENT_ID0);\n"
        "      AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(EVENT_ID0);\n",
        "",
        "race",
    ),
    cube(
        "the last Mmad keeps the unit flag (2 instead of 3)",
        BLOCK,
        "(last ? 3 : 2) : 0",
        "(last ? 2 : 2) : 0",
        "flag",
    ),
    cube(
        "every Mmad hands the unit flag over (3 instead of 2)",
        BLOCK,
        "(last ? 3 : 2) : 0",
        "3 : 0",
        "flag",
    ),
    cube(
        "the store has no unit flag where the Mmads have",
        BLOCK,
        "params.unitFlag = unit ? 3 : 0;",
        "params.unitFlag = 0;",
        "race",
    ),
    cube(
        "unit flags also where the store reads fewer fractals than were written",
        BLOCK,
        "    return tile.a.rows_l0 == AlignUp(tile.a.rows, kFractalRows) && "
        "tile.b.rows_l0 == AlignUp(tile.b.rows, kFractalRows);",
        "    return tile.a.rows_l0 != 0;",
        "flag",
    ),
    cube(
        "one slot of the bias table for all tiles",
        BLOCK,
        "compute_.tile % 2 * kBiasSlotBytes",
        "0 * kBiasSlotBytes",
        "race",
    ),
    cube(
        "B's chunk is copied after the flag",
        BLOCK,
        "    b_.CopyChunk(tile.b, k, stage);\n"
        "    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(static_cast<int32_t>(stage));\n",
        "    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(static_cast<int32_t>(stage));\n"
        "    b_.CopyChunk(tile.b, k, stage);\n",
        "race",
    ),
    cube(
        "Fill after the flag, as in published examples",
        OPERAND,
        "    // The copy itself fills its last column up to 32 bytes.\n",
        "  }\n  __aicore__ inline void FillChunk(const TileOperand& tile, const KRange& k, uint32_t stage) const {\n"
        "    const uint32_t address = tiling_->l1[stage], padded = Padded(k.length);\n"
        "    const uint32_t rows = AlignUp(tile.rows, kFractalRows);\n"
        "    if (tiling_->k_leading) return;\n",
        "race",
        (
            BLOCK,
            "    ++copied_;\n",
            "    a_.FillChunk(tile.a, k, stage);\n    b_.FillChunk(tile.b, k, stage);\n    ++copied_;\n",
        ),
    ),
]

CUBE_SYNC += [
    cube(
        "A is loaded before the wait for its chunk",
        BLOCK,
        "      if (begin == 0) {\n        AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(static_cast<int32_t>(stage));\n",
        "      if (begin == 0) {\n",
        "race",
        (
            BLOCK,
            "      b_.Load(tile.b, stage,",
            "      if (begin == 0) AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(static_cast<int32_t>(stage));\n"
            "      b_.Load(tile.b, stage,",
        ),
    ),
    cube(
        "stages are counted to the most there can be, not to those there are",
        BLOCK,
        "const uint32_t stage = copied_ % tiling_->stages;",
        "const uint32_t stage = copied_ % kMaxStages;",
        "flag",
    ),
]

CUBE_MEMORY = [
    cube(
        "no zeros after the end of K",
        OPERAND,
        "    FillZero(address + copied * rows * kBlockBytes, 1, (padded / kC0 - copied) * rows, 0);\n",
        "",
        "poison",
    ),
    cube(
        "zeros for one row instead of all",
        OPERAND,
        "(padded / kC0 - copied) * rows, 0)",
        "padded / kC0 - copied, 0)",
        "poison",
    ),
    cube(
        "zeros over the column that the copy itself ends in",
        OPERAND,
        "static_cast<uint32_t>(CeilDiv(k.length, kC0));",
        "static_cast<uint32_t>(k.length / kC0);",
        "race",
    ),
    cube(
        "K filled up to 32 instead of 64",
        OPERAND,
        "kPadK = kMx ? kScaledPair : kC0;",
        "kPadK = kC0;",
        "parameter",
    ),
    cube(
        "off by one: the last row of a tile is not copied",
        OPERAND,
        "params.nValue = static_cast<uint16_t>(lines);",
        "params.nValue = static_cast<uint16_t>(lines - 1);",
        "poison",
    ),
    cube(
        "dstNzC0Stride in bytes instead of blocks",
        OPERAND,
        "params.dstNzC0Stride = static_cast<uint16_t>(height);",
        "params.dstNzC0Stride = static_cast<uint16_t>(height * kBlockBytes);",
        "bounds",
    ),
    cube(
        "FP4: the pitch in GM in elements instead of bytes",
        OPERAND,
        "const auto pitch = BytesOf<T>(tiling_->pitch);",
        "const auto pitch = tiling_->pitch;",
        "bounds",
    ),
    cube(
        "LoadData's srcStride in rows instead of fractals",
        OPERAND,
        "params.srcStride = static_cast<int32_t>(fractals);",
        "params.srcStride = static_cast<int32_t>(tile.rows_l0);",
        "bounds",
    ),
    cube(
        "off by one: LoadData's dstStride",
        OPERAND,
        "params.dstStride = static_cast<uint16_t>(fractals);",
        "params.dstStride = static_cast<uint16_t>(fractals - 1);",
        "parameter",
    ),
    cube(
        "the last step of K is as long as the others",
        BLOCK,
        "padded - begin < tiling_->base_k ? padded - begin : tiling_->base_k;",
        "tiling_->base_k;",
        "bounds",
    ),
    cube(
        "scales in L0 as far apart as in L1",
        OPERAND,
        "scales.dstStride = static_cast<uint16_t>(length / kScaledPair);",
        "scales.dstStride = static_cast<uint16_t>(pairs);",
        "poison",
    ),
    cube(
        "the scales' pitch in GM in bytes instead of pairs",
        OPERAND,
        "params.srcDValue = tiling_->scale_pitch;",
        "params.srcDValue = tiling_->scale_pitch * 2;",
        "bounds",
    ),
    cube(
        "off by one: scales of whole fractals only",
        OPERAND,
        "static_cast<uint8_t>(CeilDiv(tile.rows, kFractalRows));",
        "static_cast<uint8_t>(tile.rows / kFractalRows);",
        "poison",
    ),
    cube(
        "scales are copied for one chunk instead of several",
        BLOCK,
        "copy_.chunks.Begin(copy_.chunk + tiling_->scale_factor) - begin;",
        "copy_.chunks.Begin(copy_.chunk + 1) - begin;",
        "poison",
    ),
    cube(
        "halved buffer: L1 is laid out for half a chunk",
        CUBE_TILING,
        "return static_cast<uint32_t>(bytes_of(p, int64_t{rows} * t.step_k * t.base_k));",
        "return static_cast<uint32_t>(bytes_of(p, int64_t{rows} * t.step_k * t.base_k) / 2);",
        "race",
    ),
    cube(
        "halved buffer: slots of L0 overlap",
        OPERAND,
        "slot * kL0SlotBytes, ",
        "slot * (kL0SlotBytes / 2), ",
        "race",
    ),
    cube(
        "doubled buffer: the second slot of L0 starts at its end",
        OPERAND,
        "slot * kL0SlotBytes, ",
        "slot * (kL0SlotBytes * 2), ",
        "bounds",
    ),
    cube(
        "halved buffer: slots of L0C overlap",
        BLOCK,
        "slot * (kL0CBytes / tiling_->l0c_slots)",
        "slot * (kL0CBytes / 2 / tiling_->l0c_slots)",
        "race",
    ),
    cube(
        "bias in blocks of elements instead of bytes",
        BLOCK,
        "AlignUp(tile.b.rows, kFractalRows) * sizeof(float) / kBlockBytes",
        "AlignUp(tile.b.rows, kFractalRows) * 2 / kBlockBytes",
        "poison",
    ),
    cube(
        "the first Mmad of a tile adds to what is in L0C",
        BLOCK,
        "params.cmatrixInitVal = first && !tiling_->has_bias;",
        "params.cmatrixInitVal = false;",
        "poison",
    ),
    cube(
        "cmatrixInitVal drops the bias",
        BLOCK,
        "params.cmatrixInitVal = first && !tiling_->has_bias;",
        "params.cmatrixInitVal = first;",
        "parameter",
    ),
    cube(
        "Fixpipe stores the rows of L0C, not those of the tile",
        BLOCK,
        "params.mSize = static_cast<uint16_t>(tile.a.rows);",
        "params.mSize = static_cast<uint16_t>(tile.a.rows_l0);",
        "bounds",
    ),
    cube(
        "Fixpipe's srcStride without the rounding",
        BLOCK,
        "params.srcStride = static_cast<uint16_t>(tile.a.rows_l0);",
        "params.srcStride = static_cast<uint16_t>(tile.a.rows);",
        "poison",
    ),
    cube(
        "Fixpipe's dstStride in bytes",
        BLOCK,
        "params.dstStride = static_cast<uint32_t>(tiling_->out_pitch);",
        "params.dstStride = static_cast<uint32_t>(tiling_->out_pitch * sizeof(TOut));",
        "bounds",
    ),
    cube(
        "an atomic add of another type than the output's",
        BLOCK,
        "AscendC::SetAtomicAdd<float>();",
        "AscendC::SetAtomicAdd<half>();",
        "type",
    ),
    cube(
        "the scale of Fixpipe is never given",
        BLOCK,
        "    params.deqScalar = tile.out_scale_bits;\n",
        "",
        "poison",
    ),
]

CUBE_WORK = [
    cube(
        "two cores compute the same tiles",
        SCHEDULE,
        "    product_.Tile(*tiling_, next_ % product_.Tiles(), tile);\n    next_ += tiling_->blocks;",
        "    product_.Tile(*tiling_, next_ % product_.Tiles(), tile);\n    next_ += 1;",
        "core_race",
    ),
    cube(
        "tiles overlap by a row",
        SCHEDULE,
        "const uint64_t row = at.row * base_m,",
        "const uint64_t row = at.row * base_m - (at.row > 0 ? 1 : 0),",
        "core_race",
    ),
    cube(
        "off by one: the last rows have no tile",
        SCHEDULE,
        "row_tiles = CeilDiv(rows, base);",
        "row_tiles = rows / base;",
        WRONG,
    ),
    cube(
        "the rows after the last group are left out",
        SCHEDULE,
        "if (!by_rows || tiling_->accumulate || end_ == total) return false;",
        "return false;",
        WRONG,
    ),
    cube(
        "split k: a group's scales start at the line of its first row",
        SCHEDULE,
        "const uint64_t line = start / kScaledPair + group_;",
        "const uint64_t line = start / kScaledPair;",
        WRONG,
    ),
    cube(
        "the transposed flag is inverted",
        CUBE_TILING,
        "to.k_leading = from.k_leading;",
        "to.k_leading = !from.k_leading;",
        "bounds",
    ),
    cube(
        "a transposed operand is loaded straight",
        OPERAND,
        "params.ifTranspose = true;",
        "params.ifTranspose = false;",
        WRONG,
    ),
]

LAST = "kernels/mx_quant_last.h"
GROUPED = "kernels/mx_quant_grouped.h"
COPY = "kernels/vector_copy.h"
ROWS = "kernels/row_blocks.h"
COLUMNS = "kernels/column_blocks.h"
REGISTERS = "kernels/quant_registers.h"
VECTOR_TILING = "tiling/quant_tiling.h"

_IN_PARAMETERS = (
    "row_bytes,\n                                         static_cast<int64_t>({}), static_cast<int64_t>(gap), 0}},"
)
_OUT_GAP = (
    "  const uint32_t gap = {};\n  AscendC::DataCopyPad(to, from,\n                       "
    "DataCopyExtParams{{static_cast<uint16_t>(rows), row_bytes, static_cast<int64_t>(gap),"
)

VECTOR = [
    quant(
        "the cleared tails are read back without LocalMemBar",
        LAST,
        "  clear_tails(x, tail_rows, pitch, keep);\n  wait_for_stores();\n",
        "  clear_tails(x, tail_rows, pitch, keep);\n",
        "memory_order",
    ),
    quant(
        "the multipliers are read back without LocalMemBar",
        LAST,
        "  wait_for_stores();\n  row_encode<",
        "  row_encode<",
        "memory_order",
    ),
    floats(
        "the products are read back without LocalMemBar",
        "kernels/scale_epilogue.h",
        "  wait_for_stores();\n",
        "",
        "memory_order",
    ),
    quant(
        "StoreUnAlignPost is missing",
        ROWS,
        "    Reg::StoreUnAlignPost(amax, pending, 0);\n",
        "",
        "poison",
    ),
    quant(
        "the codes are not enqueued",
        LAST,
        "    out_.EnQue(y);\n",
        "",
        "queue",
    ),
    quant(
        "the input is not freed",
        LAST,
        "    in_.FreeTensor(x);\n",
        "",
        "queue",
    ),
    quant(
        "the codes are freed twice",
        LAST,
        "    out_.FreeTensor(y);\n",
        "    out_.FreeTensor(y);\n    out_.FreeTensor(y);\n",
        "queue",
    ),
    floats(
        "the last columns' scales are not freed",
        "kernels/scale_epilogue.h",
        "    if (share.begin != share.end) free_columns(columns, bias);\n",
        "",
        "queue",
    ),
    floats(
        "queue depth: the next columns' scales are taken before the last are freed",
        "kernels/scale_epilogue.h",
        "        if (unit != share.begin) free_columns(columns, bias);\n",
        "",
        "queue",
    ),
    quant(
        "the input is freed before the function that reads it",
        LAST,
        "    const bool tails = cols != pitch;\n",
        "    const bool tails = cols != pitch;\n    in_.FreeTensor(x);\n",
        "race",
        (LAST, "    in_.FreeTensor(x);\n    out_.EnQue(y);\n", "    out_.EnQue(y);\n"),
    ),
    floats(
        "the values are enqueued before the function that writes them",
        "kernels/mx_dequant.h",
        "    LocalTensor<uint8_t> out = values_.template AllocTensor<uint8_t>(),\n",
        "    LocalTensor<uint8_t> out = values_.template AllocTensor<uint8_t>();\n"
        "    values_.EnQue(out);\n    LocalTensor<uint8_t>\n",
        "race",
        (
            "kernels/mx_dequant.h",
            "(__ubuf__ uint32_t*)multiplier.GetPhyAddr(), rows * pitch);\n"
            "    codes_in_.FreeTensor(codes);\n    scale_in_.FreeTensor(scale);\n    values_.EnQue(out);\n",
            "(__ubuf__ uint32_t*)multiplier.GetPhyAddr(), rows * pitch);\n"
            "    codes_in_.FreeTensor(codes);\n    scale_in_.FreeTensor(scale);\n",
        ),
    ),
    quant(
        "the scales are freed before they are copied out",
        LAST,
        "    scale = scale_out_.template DeQue<uint8_t>();\n",
        "    scale = scale_out_.template DeQue<uint8_t>();\n    scale_out_.FreeTensor(scale);\n",
        "race",
        (
            LAST,
            "                     scale_pitch_);\n    scale_out_.FreeTensor(scale);\n",
            "                     scale_pitch_);\n",
        ),
    ),
    quant(
        "halved buffer: the input's",
        LAST,
        "pipe.InitBuffer(in_, 2, tiling.wide_bytes);",
        "pipe.InitBuffer(in_, 2, tiling.wide_bytes / 2);",
        "bounds",
    ),
    quant(
        "the buffers do not leave room for reading past a tail",
        VECTOR_TILING,
        "t.wide_bytes = static_cast<uint32_t>(elements * wide + 256);  // clearing",
        "t.wide_bytes = static_cast<uint32_t>(elements * wide);  // clearing",
        "bounds",
    ),
    quant(
        "tiles that UB does not hold",
        VECTOR_TILING,
        "32768 : 16384, least = 16384 / wide;",
        "32768 : 16384, least = 131072 / wide;",
        "bounds",
        (VECTOR_TILING, "256), least, most);", "256), least, std::max(most, least));"),
    ),
    quant(
        "DataCopyPad's length in elements",
        LAST,
        "rows, cols * sizeof(In), tiling_.cols",
        "rows, cols, tiling_.cols",
        "poison",
    ),
    quant(
        "DataCopyPad's gap in UB in bytes instead of blocks",
        COPY,
        _OUT_GAP.format("(ub_pitch - round_up(row_bytes, kUbBlock)) / kUbBlock"),
        _OUT_GAP.format("ub_pitch - round_up(row_bytes, kUbBlock)"),
        "bounds",
    ),
    quant(
        "DataCopyPad's gap in GM counted from the row's begin",
        COPY,
        _IN_PARAMETERS.format("gm_pitch - row_bytes"),
        _IN_PARAMETERS.format("gm_pitch"),
        "bounds",
    ),
    quant(
        "no zeros behind the rows",
        LAST,
        "static_cast<uint16_t>(tails ? rows : 0)",
        "static_cast<uint16_t>(0)",
        "poison",
    ),
    quant(
        "off by one: an element behind each row is kept",
        LAST,
        "kTail - (pitch - cols), elements",
        "kTail - (pitch - cols) + 1, elements",
        "poison",
    ),
    quant(
        "off by one: the last step of the scales",
        ROWS,
        "  const uint16_t steps = static_cast<uint16_t>((count + kLanes - 1) / kLanes);\n",
        "  const uint16_t steps = static_cast<uint16_t>(count / kLanes);\n",
        "poison",
    ),
    quant(
        "multipliers 16 bytes apart instead of 32",
        ROWS,
        "multiplier + i * 8);\n    encode",
        "multiplier + i * 4);\n    encode",
        "alignment",
    ),
    quant(
        "FP4 rows of a tile as far apart as bytes",
        COLUMNS,
        "const uint32_t y_pitch = pitch * To::kBits / 8;",
        "const uint32_t y_pitch = pitch;",
        "bounds",
    ),
    quant(
        "the cores' shares overlap by one tile",
        COPY,
        "return {begin, begin + each + (core < more ? 1 : 0)};",
        "return {begin, begin + each + (core + 1 < cores ? 1 : 0)};",
        "core_race",
    ),
    quant(
        "the cores' shares leave out the remainder",
        COPY,
        "return {begin, begin + each + (core < more ? 1 : 0)};",
        "return {begin, begin + each};",
        WRONG,
    ),
    quant(
        "a chunk's scales are counted in pairs",
        LAST,
        "scale_[row * scale_pitch_ + column / kBlockElements]",
        "scale_[row * scale_pitch_ + column / kTail]",
        "race",
    ),
    quant(
        "wrong offset of a group's scales",
        GROUPED,
        "return start / kTail + group; }",
        "return start / kTail; }",
        WRONG,
    ),
    quant(
        "the lines of scales between groups are not zeroed",
        GROUPED,
        "AscendC::Duplicate(scale.template ReinterpretCast<int32_t>(), 0, round_up(cols * 2, kUbBlock) / 4);",
        "",
        "poison",
    ),
    quant(
        "Duplicate counts bytes",
        GROUPED,
        "0, round_up(cols * 2, kUbBlock) / 4);",
        "0, round_up(cols * 2, kUbBlock));",
        "bounds",
    ),
    quant(
        "overflow is not saturated",
        REGISTERS,
        "kCast<Reg::RegLayout::ZERO, Reg::SatMode::SAT, To::kRound>>(low, even, all);",
        "kCast<Reg::RegLayout::ZERO, Reg::SatMode::NO_SAT, To::kRound>>(low, even, all);",
        WRONG,
    ),
    floats(
        "CTRL[60] stays set: overflow is saturated where it must be Inf",
        "kernels/mx_dequant.h",
        "mx_dequant_last(GM_ADDR codes, GM_ADDR scale, GM_ADDR out, RowTiling tiling) {\n  AscendC::TPipe pipe;\n"
        "  AscendC::SetCtrlSpr<60, 60>(0);",
        "mx_dequant_last(GM_ADDR codes, GM_ADDR scale, GM_ADDR out, RowTiling tiling) {\n  AscendC::TPipe pipe;\n",
        WRONG,
    ),
    quant(
        "a rounding that the Cast does not have",
        REGISTERS,
        "  using Code = fp8_e4m3fn_t;\n  static constexpr bool kFp4 = false;\n  static constexpr uint32_t kBits = 8;\n"
        "  static constexpr RoundMode kRound = RoundMode::CAST_RINT;",
        "  using Code = fp8_e4m3fn_t;\n  static constexpr bool kFp4 = false;\n  static constexpr uint32_t kBits = 8;\n"
        "  static constexpr RoundMode kRound = RoundMode::CAST_CEIL;",
        DOES_NOT_COMPILE,
    ),
    floats(
        "partial maxima are counted in bytes",
        "kernels/hif8_rows.h",
        "partials_[unit * sizeof(float)]",
        "partials_[unit]",
        "core_race",
    ),
    floats(
        "the partial maxima are read before the copy is over",
        "kernels/hif8_rows.h",
        "    partial_in_.EnQue(partials);\n    partials = partial_in_.template DeQue<uint8_t>();\n",
        "",
        "race",
    ),
    floats(
        "the running maximum is not cleared",
        "kernels/hif8_rows.h",
        "    asc_vf_call<clear_register<Bits>>((__ubuf__ Bits*)amax.GetPhyAddr());\n",
        "",
        "poison",
    ),
    floats(
        "the maximum of a row counts what is behind it",
        "kernels/hif8_rows.h",
        "gather_amax(largest, x + row * pitch, cols);",
        "gather_amax(largest, x + row * pitch, pitch);",
        "poison",
    ),
    quant(
        "off by one: the next group's end",
        GROUPED,
        "ends_.GetValue(group)",
        "ends_.GetValue(group + 1)",
        "bounds",
    ),
    floats(
        "no zeros behind an odd number of columns' scales",
        "kernels/mx_dequant.h",
        "DataCopyPadExtParams<uint8_t>{true, 0, static_cast<uint8_t>(cols % 2 * 2), 0}",
        "DataCopyPadExtParams<uint8_t>{false, 0, 0, 0}",
        "poison",
    ),
]

TO_BLOCK = "kernels/mx_to_block.h"
TO_BLOCK_TILING = "tiling/to_block_tiling.h"

TABLE = [
    to_block(
        "the classes are read back without LocalMemBar",
        TO_BLOCK,
        "  wait_for_stores();\n\n  Reg::RegTensor<uint16_t> spread;",
        "\n  Reg::RegTensor<uint16_t> spread;",
        "memory_order",
    ),
    to_block(
        "the table is not waited for",
        TO_BLOCK,
        "    AscendC::SetFlag<AscendC::HardEvent::S_V>(written);\n"
        "    AscendC::WaitFlag<AscendC::HardEvent::S_V>(written);\n",
        "",
        "race",
    ),
    to_block(
        "no zeros for the blocks that a row does not have",
        TO_BLOCK,
        "DataCopyPadExtParams<uint8_t>{true, 0, static_cast<uint8_t>(kRowBlocks - row_blocks), 0}",
        "DataCopyPadExtParams<uint8_t>{false, 0, 0, 0}",
        "poison",
    ),
    to_block(
        "what is behind a row's end is counted",
        TO_BLOCK,
        "static_cast<int16_t>(7), stored);",
        "static_cast<int16_t>(7), all);",
        "poison",
    ),
    to_block(
        "halved buffer: that of the codes leaves no room for reading past the last",
        TO_BLOCK_TILING,
        "kPairElements * pitch / 2 + 128);",
        "kPairElements * pitch / 2);",
        "bounds",
    ),
    to_block(
        "the tiles below are looked up with the classes of those above",
        TO_BLOCK,
        "pitch, word + kLower, sign + kBytes,",
        "pitch, word, sign + kBytes,",
        WRONG,
    ),
    to_block(
        "codes of a tile of NaN keep their sign",
        TO_BLOCK,
        "  Reg::Select(sign, of_nan, sign, nan);\n",
        "",
        WRONG,
    ),
    to_block(
        "255 makes NaN of a tile whatever was asked for",
        "launch/mx_to_block.cpp",
        "nan_as_number ? 255 : 254",
        "nan_as_number ? 254 : 254",
        WRONG,
    ),
    to_block(
        "off by one: a class that neither register knows",
        TO_BLOCK_TILING,
        "table.registers == 2 && of_class > 30",
        "table.registers == 2 && of_class > 31",
        WRONG,
    ),
    to_block(
        "the counts of a group of columns are added again with the next",
        TO_BLOCK,
        "    Reg::Duplicate(changed, static_cast<uint8_t>(0));  // at most 64\n",
        "    if (group == 0) Reg::Duplicate(changed, static_cast<uint8_t>(0));\n",
        WRONG,
    ),
]

MUTATIONS = [*CUBE_SYNC, *CUBE_MEMORY, *CUBE_WORK, *VECTOR, *TABLE]
