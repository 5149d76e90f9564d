// The rarer loads and stores: unaligned ones, single elements.
#include <algorithm>
#include <cstring>

#include "twin/reg_store.h"

namespace npu_lp::twin {

ActiveLanes active_lanes(const MaskReg& mask, int width) {
  const uint8_t* known = defined_of(mask);
  int first = 0;
  int last = kRegBytes / width;
  while (first < last && !mask.bits[first * width] && known[first * width]) ++first;
  while (last > first && !mask.bits[(last - 1) * width] && known[(last - 1) * width]) --last;
  return {first, last};
}

void store_first(const void* target, const RegData& src, uint32_t bytes, Loc loc) {
  VectorRun& run = vector_run();
  run.count_store(1);
  const uint64_t begin = run.store(target, 0, bytes, bytes, loc);
  if (!run.compute()) return;
  std::memcpy(run.memory() + begin, src.bytes, bytes);
  std::memcpy(run.defined() + begin, defined_of(src), bytes);
}

void load_block(AscendC::Reg::UnalignRegForLoad& kept, const void* source, Loc loc) {
  VectorRun& run = vector_run();
  run.count_load(1, false);
  const uint64_t begin = run.load(source, 1, 1, loc);
  kept.loaded = true;
  kept.block = begin / 32 * 32;
  if (!run.compute()) return;
  std::memcpy(kept.bytes, run.memory() + kept.block, 32);
  std::memcpy(kept.defined, run.defined() + kept.block, 32);
}

void load_unaligned(RegData& dst, AscendC::Reg::UnalignRegForLoad& kept, const void* source, Loc loc) {
  VectorRun& run = vector_run();
  run.count_load(1, false);
  const uint64_t begin = run.load(source, kRegBytes, 1, loc);
  const uint64_t block = begin / 32 * 32;
  if (!kept.loaded || (begin != block && kept.block != block)) {
    run.fail(Check::kParameter, loc,
             text("LoadUnAlign at byte ", begin, " of UB, but the unaligned register holds ",
                  kept.loaded ? text("the 32 bytes at ", kept.block) : std::string("nothing"),
                  "; call LoadUnAlignPre for this address first"));
  }
  if (run.compute()) {
    const uint64_t old = begin == block ? 0 : 32 - (begin - block);  // bytes that come from the register
    alignas(64) uint8_t known[kRegBytes];
    std::memcpy(dst.bytes, kept.bytes + 32 - old, old);
    std::memcpy(known, kept.defined + 32 - old, old);
    std::memcpy(dst.bytes + old, run.memory() + begin + old, kRegBytes - old);
    std::memcpy(known + old, run.defined() + begin + old, kRegBytes - old);
    set_defined(dst, known);
  }
  // The rest of the last block that was read, for a load that goes on where this one ended.
  kept.block = (begin + kRegBytes) / 32 * 32;
  if (begin != block && run.compute()) {
    std::memcpy(kept.bytes, run.memory() + kept.block, 32);
    std::memcpy(kept.defined, run.defined() + kept.block, 32);
  }
}

void store_unaligned(const void* target, const RegData& src, UnalignRegForStore& kept, uint64_t bytes, Loc loc) {
  VectorRun& run = vector_run();
  run.count_store(1);
  const uint64_t begin = run.address(target, loc);
  if (bytes > kRegBytes) {
    run.fail(Check::kParameter, loc, text("StoreUnAlign of ", bytes, " bytes; a register has 256"));
  }
  if (kept.pending > 0 && kept.end != begin) {
    run.fail(Check::kParameter, loc,
             text("StoreUnAlign at byte ", begin, " of UB, but the unaligned register keeps ", kept.pending,
                  " bytes that end at ", kept.end, "; call StoreUnAlignPost before another address"));
  }
  if (bytes == 0) return;
  // What is complete up to a multiple of 32 is written now, together with what was kept.
  const uint64_t end = begin + bytes;
  const uint64_t start = begin - kept.pending;
  const uint64_t written_to = std::max(end / 32 * 32, start);
  const auto* base = static_cast<const uint8_t*>(target) - kept.pending;
  run.store(target, 0, static_cast<uint32_t>(bytes), 1, loc);  // bounds of the whole
  if (written_to > start && kept.pending > 0) run.store(base, 0, static_cast<uint32_t>(written_to - start), 1, loc);
  if (run.compute()) {
    alignas(64) uint8_t data[32 + kRegBytes];
    alignas(64) uint8_t known[32 + kRegBytes];
    std::memcpy(data, kept.bytes, kept.pending);
    std::memcpy(known, kept.defined, kept.pending);
    std::memcpy(data + kept.pending, src.bytes, bytes);
    std::memcpy(known + kept.pending, defined_of(src), bytes);
    const uint64_t now = written_to - start;
    std::memcpy(run.memory() + start, data, now);
    std::memcpy(run.defined() + start, known, now);
    std::memcpy(kept.bytes, data + now, end - written_to);
    std::memcpy(kept.defined, known + now, end - written_to);
  }
  kept.pending = static_cast<uint32_t>(end - written_to);
  kept.end = end;
}

void store_kept(const void* target, UnalignRegForStore& kept, Loc loc) {
  VectorRun& run = vector_run();
  run.count_store(1);
  const uint64_t begin = run.address(target, loc);
  if (kept.pending == 0) return;
  if (kept.end != begin) {
    run.fail(Check::kParameter, loc,
             text("StoreUnAlignPost at byte ", begin, " of UB, but the unaligned register keeps ", kept.pending,
                  " bytes that end at ", kept.end, "; pass the pointer as the last StoreUnAlign left it"));
  }
  run.store(static_cast<const uint8_t*>(target) - kept.pending, 0, kept.pending, 1, loc);
  if (run.compute()) {
    std::memcpy(run.memory() + begin - kept.pending, kept.bytes, kept.pending);
    std::memcpy(run.defined() + begin - kept.pending, kept.defined, kept.pending);
  }
  kept.pending = 0;
}

}  // namespace npu_lp::twin
