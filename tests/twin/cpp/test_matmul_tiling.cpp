// Tilings of random and of DeepSeek-V4's matmuls: every byte of L1, L0, the scale areas, L0C and the bias table is
// within its memory and belongs to one buffer, every output has exactly one tile, and what cannot be computed is
// refused. Shapes come on stdin: "name m n k batches a_k_leading b_k_leading groups split" a line.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ascend/kernels/matmul_schedule.h"
#include "ascend/tiling/matmul_tiling.h"

namespace {

using namespace npu_lp;
using namespace npu_lp::ascend;

int failures = 0;
std::string what;

void expect(bool holds, const char* text) {
  if (holds) return;
  if (++failures < 20) std::printf("%s: %s\n", what.c_str(), text);
}

struct Buffer {
  uint64_t begin, end;
};

void expect_apart(std::vector<Buffer> buffers, uint64_t capacity, const char* text) {
  std::sort(buffers.begin(), buffers.end(), [](const Buffer& a, const Buffer& b) { return a.begin < b.begin; });
  uint64_t at = 0;
  for (const Buffer& buffer : buffers) {
    if (buffer.begin == buffer.end) continue;
    expect(buffer.begin >= at, text);
    expect(buffer.begin % kBlockBytes == 0, "a buffer of L1 starts within a block");
    at = buffer.end;
  }
  expect(at <= capacity, text);
}

uint64_t align(uint64_t a, uint64_t b) {
  return (a + b - 1) / b * b;
}

void check_memories(const MatmulProblem& p, const MatmulTiling& t) {
  const bool fp4 = info(p.a_format).bits == 4, mx = info(p.a_format).is_mx;
  const uint64_t c0 = fp4 ? 64 : 32, pad_k = mx ? 64 : 32, pad = std::max(pad_k, c0);
  // The most K that any chunk and any load of scales has, found by cutting lengths as the kernel does.
  uint64_t chunk = pad_k, load = pad_k;
  std::vector<uint64_t> lengths = {p.split == MatmulSplit::kK ? static_cast<uint64_t>(p.k) : t.k};
  for (uint64_t k = 1; p.split == MatmulSplit::kK && k < t.k; k = k * 5 / 3 + 1) lengths.push_back(k);
  for (const uint64_t k : lengths) {
    KChunks chunks;
    chunks.Set(k, t);
    uint64_t covered = 0;
    for (uint32_t i = 0; i < chunks.count; ++i) {
      const KRange range = chunks.Range(i);
      expect(range.begin == covered && range.begin % t.base_k == 0, "chunks do not follow each other");
      covered += range.length;
      chunk = std::max(chunk, align(range.length, pad));
      if (i % t.scale_factor == 0) load = std::max(load, align(chunks.Begin(i + t.scale_factor) - range.begin, 64));
    }
    expect(covered == k, "chunks do not cover K");
  }
  expect(chunk <= align(uint64_t{t.step_k} * t.base_k, pad), "a chunk has more steps than step_k");
  std::vector<Buffer> l1;
  for (const MatmulOperandTiling* x : {&t.a, &t.b}) {
    expect(x->base % x->align == 0 && x->base > 0, "a tile is not whole fractals or squares");
    for (uint32_t stage = 0; stage < t.stages; ++stage) {
      l1.push_back({x->l1[stage], x->l1[stage] + x->base * chunk * 32 / c0});
      expect(x->l1[stage] / kL1HalfBytes == stage % 2 && (l1.back().end - 1) / kL1HalfBytes == stage % 2,
             "a chunk is not in its half of L1");
    }
    for (const uint32_t slot : x->scale_l1) {
      l1.push_back({slot, slot + (mx ? align(x->base, 16) * load / 32 : 0)});
    }
    expect(x->base * t.base_k * 32 / c0 <= kL0SlotBytes, "a step does not fit a slot of L0");
    if (mx) expect(align(x->base, 16) * t.base_k / 32 <= kL0MxSlotBytes, "scales of a step do not fit their area");
    expect(x->base / 16 <= 255 && t.base_k / 64 <= 255 && x->base <= 4095 && t.base_k <= 4095, "a field overflows");
  }
  for (const uint32_t slot : t.bias_l1) l1.push_back({slot, slot + (p.has_bias ? align(t.b.base * 4, 64) : 0)});
  expect_apart(l1, kL1Bytes, "buffers of L1 overlap or leave it");
  expect(uint64_t{t.a.base} * t.b.base * 4 <= kL0CBytes / t.l0c_slots, "tiles do not fit L0C");
  expect(t.l0c_slots == 1 || t.l0c_slots == 2, "L0C has another number of slots than 1 or 2");
  expect(!p.has_bias || t.b.base * 4 <= kBiasSlotBytes, "the bias does not fit its table");
  expect(t.stages >= 2 && t.stages <= kMaxStages && t.base_k % 64 == 0 && t.scale_factor >= 1, "out of range");
}

// Tiles of `rows` x n cut into base_m x base_n are met exactly once, whoever computes them.
void check_cover(const MatmulTiling& t, uint64_t rows, uint32_t base_m) {
  Product product;
  product.Cut(t, rows, t.k, base_m);
  std::vector<uint8_t> met(product.Tiles(), 0);
  uint64_t elements = 0;
  for (uint64_t i = 0; i < product.Tiles(); ++i) {
    const TilePosition at(i, product.row_tiles, product.column_tiles, t.window);
    const bool inside = at.row < product.row_tiles && at.column < product.column_tiles;
    expect(inside, "a tile is outside");
    if (!inside) return;
    ++met[at.row * product.column_tiles + at.column];
    MatmulTile tile;
    product.Tile(t, i, tile);
    elements += uint64_t{tile.a.rows} * tile.b.rows;
    expect(tile.a.rows > 0 && tile.a.rows_l0 <= t.a.base && tile.b.rows > 0 && tile.b.rows_l0 <= t.b.base,
           "a tile is empty or larger than its buffers");
  }
  expect(std::all_of(met.begin(), met.end(), [](uint8_t n) { return n == 1; }), "a tile is met twice, or never");
  expect(elements == rows * t.n, "tiles do not cover the output");
}

void check(MatmulProblem p, int cores) {
  for (const auto& [x, rows] : {std::pair<MatmulMatrix&, int64_t>{p.a, p.m}, {p.b, p.n}}) {
    x.pitch = x.k_leading ? rows : p.k;
    x.packed_along_k = !x.k_leading;
    x.scale_pitch = x.scale_k_leading ? rows : (p.k + 63) / 64;
  }
  const MatmulTiling t = make_matmul_tiling(p, cores);
  std::ostringstream text;
  text << what << " -> " << t.a.base << "x" << t.b.base << "x" << t.base_k << " step " << t.step_k << " scale "
       << t.scale_factor << " stages " << t.stages;
  const std::string before = what;
  what = text.str();
  if (p.m == 0 || p.n == 0 || p.batches == 0) {
    expect(t.blocks == 0, "an empty product starts cores");
  } else {
    expect(t.blocks >= 1 && t.blocks <= static_cast<uint32_t>(cores), "wrong number of cores");
    check_memories(p, t);
    check_cover(t, t.m, t.a.base);
    // A group of rows is cut evenly, by GroupSchedule::SetRows.
    if (p.split == MatmulSplit::kM && t.m > 1) {
      const uint64_t rows = t.m / 2 + 1, tiles = CeilDiv(rows, t.a.base);
      check_cover(t, rows, AlignUp(static_cast<uint32_t>(CeilDiv(rows, tiles)), t.a.align));
    }
  }
  what = before;
}

std::string name_of(const MatmulProblem& p, int cores) {
  std::ostringstream text;
  text << info(p.a_format).name << " " << p.m << "x" << p.n << "x" << p.k << " batches " << p.batches << " a"
       << p.a.k_leading << p.a.scale_k_leading << " b" << p.b.k_leading << p.b.scale_k_leading << " split "
       << static_cast<int>(p.split) << "/" << p.groups << " bias " << p.has_bias << " cores " << cores;
  return text.str();
}

void check_random(int cases) {
  std::mt19937_64 random(7);
  const auto pick = [&](std::initializer_list<int64_t> from) { return from.begin()[random() % from.size()]; };
  const auto size = [&] { return static_cast<int64_t>(random() % (1ull << (1 + random() % 14))); };
  for (int i = 0; i < cases; ++i) {
    MatmulProblem p;
    p.a_format = p.b_format = static_cast<Format>(pick({0, 1, 2, 3, 6}));
    const bool fp4 = info(p.a_format).bits == 4;
    p.m = size();
    p.n = size();
    p.k = size();
    p.a.k_leading = random() % 2;
    p.b.k_leading = random() % 2;
    p.a.scale_k_leading = random() % 2;
    p.b.scale_k_leading = random() % 2;
    const int64_t split = pick({0, 0, 1, 2});
    if (split == 1 && !(fp4 && p.a.k_leading)) p.split = MatmulSplit::kM;
    if (split == 2 && !fp4) p.split = MatmulSplit::kK;
    if (p.split != MatmulSplit::kNone) p.groups = 1 + static_cast<int64_t>(random() % 300);
    if (p.split == MatmulSplit::kNone) p.batches = pick({0, 1, 1, 1, 7});
    if (fp4) {
      p.m += p.m % 2;
      p.n += p.n % 2;
      p.k += p.k % 2;
    }
    p.has_bias = p.split == MatmulSplit::kNone && info(p.a_format).is_mx && random() % 2;
    p.out = static_cast<MatmulOut>(random() % 3);
    const int cores = static_cast<int>(pick({1, 2, 8, 28, 32, 36}));
    what = name_of(p, cores);
    check(p, cores);
  }
}

void expect_refused(const MatmulProblem& p, const std::string& words, const MatmulTilingChoice* choice = nullptr) {
  what = "refusal of " + words;
  try {
    make_matmul_tiling(p, 32, choice);
  } catch (const std::invalid_argument& error) {
    expect(std::string(error.what()).find(words) != std::string::npos, error.what());
    return;
  }
  expect(false, "was accepted");
}

void check_refusals() {
  const auto good = [](Format format) {
    MatmulProblem p;
    p.a_format = p.b_format = format;
    p.m = p.n = p.k = 128;
    p.a.pitch = p.b.pitch = 128;
    p.a.scale_pitch = p.b.scale_pitch = 2;
    return p;
  };
  MatmulProblem p = good(Format::kE2M1);
  p.a.packed_along_k = false;
  expect_refused(p, "packed along M");
  p = good(Format::kE2M1);
  p.b.k_leading = true;
  expect_refused(p, "packed along K");
  p = good(Format::kE2M1);
  p.a.pitch = 129;
  expect_refused(p, "must start with a byte");
  p = good(Format::kE2M1);
  p.split = MatmulSplit::kK;
  p.groups = 2;
  expect_refused(p, "middle of a byte");
  p = good(Format::kE4M3);
  p.b_format = Format::kE2M1;
  expect_refused(p, "A is e4m3 and B is e2m1");
  p.b_format = Format::kHiF8;
  expect_refused(p, "hif8 with hif8");
  p = good(Format::kE4M3);
  p.b.pitch = 100;
  expect_refused(p, "must not overlap");
  p = good(Format::kE4M3);
  p.accumulate = true;
  expect_refused(p, "only a float32 output");
  p = good(Format::kHiF8);
  p.has_bias = true;
  expect_refused(p, "scale_epilogue");
  p = good(Format::kE4M3);
  p.groups = 2;
  expect_refused(p, "without a split");
  MatmulTilingChoice choice;
  choice.base_m = choice.base_n = 512;
  expect_refused(good(Format::kE4M3), "no tiling fits base_m=512", &choice);
}

}  // namespace

int main() {
  check_random(2000);
  check_refusals();
  int shapes = 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    MatmulProblem p;
    std::string name;
    int split = 0;
    in >> name >> p.m >> p.n >> p.k >> p.batches >> p.a.k_leading >> p.b.k_leading >> p.groups >> split;
    p.split = static_cast<MatmulSplit>(split);
    p.a.scale_k_leading = p.a.k_leading;
    p.b.scale_k_leading = p.b.k_leading;
    what = name;
    for (const Format format : {Format::kE4M3, Format::kHiF8}) {
      p.a_format = p.b_format = format;
      check(p, 32);
    }
    ++shapes;
  }
  std::printf("%d shapes, %d failures\n", shapes, failures);
  return failures == 0 ? 0 : 1;
}
