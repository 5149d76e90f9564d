#include "ascend/tiling/matmul_tiling.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace npu_lp::ascend {

namespace {

constexpr int64_t div_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

constexpr int64_t align_up(int64_t a, int64_t b) {
  return div_up(a, b) * b;
}

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw std::invalid_argument(message.str());
}

template <typename... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) refuse(parts...);
}

// --- What the cube can load --------------------------------------------------------------------------------------

bool is_fp4(const MatmulProblem& p) {
  return info(p.a_format).bits == 4;
}

bool is_mx(const MatmulProblem& p) {
  return info(p.a_format).is_mx;
}

void check_operand(const char* name, const MatmulMatrix& x, int64_t rows, int64_t k, bool fp4) {
  const int64_t lines = x.k_leading ? k : rows, width = x.k_leading ? rows : k;
  require(lines <= 1 || x.pitch >= width, "matmul on the cube: ", name, " has lines of ", width, " elements that are ",
          x.pitch, " apart, but they must not overlap. Make the operand contiguous.");
  if (!fp4) return;
  require(x.packed_along_k != x.k_leading, "matmul on the cube: ", name, " is FP4 packed along ",
          x.packed_along_k ? "K" : (name[0] == 'a' ? "M" : "N"), ", but ", x.k_leading ? "K" : "that dimension",
          " is not the contiguous one in memory. The two elements of a byte must be neighbours in memory order: "
          "quantize the operand along the dimension it is stored along, or copy it to the transposed layout first.");
  require(width % 2 == 0 && x.pitch % 2 == 0 && x.batch_stride % 2 == 0, "matmul on the cube: ", name,
          " is FP4 with lines of ", width, " elements, ", x.pitch, " apart, and batches ", x.batch_stride,
          " apart, but each line must start with a byte. Pass an even width and even strides.");
}

void check_problem(const MatmulProblem& p, int cores) {
  const FormatInfo &a = info(p.a_format), &b = info(p.b_format);
  require(
      a.on_npu && b.on_npu && a.bits == b.bits && a.is_mx == b.is_mx, "matmul on the cube: A is ", a.name, " and B is ",
      b.name,
      ", but the cube multiplies e4m3 and e5m2 with each other, e2m1 and e1m2 with each other, and hif8 with hif8.");
  require(p.m >= 0 && p.n >= 0 && p.k >= 0 && p.batches >= 0, "matmul on the cube: sizes m=", p.m, ", n=", p.n,
          ", k=", p.k, ", batches=", p.batches, " must not be negative.");
  require(cores >= 1, "matmul on the cube: cores=", cores, ", but at least one is needed.");
  require(!p.accumulate || p.out == MatmulOut::kFloat32,
          "matmul on the cube: only a float32 output can be added to. Pass out=float32.");
  require(!p.has_bias || (is_mx(p) && p.split == MatmulSplit::kNone),
          "matmul on the cube: a bias exists for MX products of two matrices only. With HiF8 scales it comes after the "
          "scales: add it in scale_epilogue.");
  require(!p.scale_out || !is_mx(p), "matmul on the cube: MX scales are part of the product; scale_out is for hif8.");
  if (p.split == MatmulSplit::kNone) {
    require(p.groups == 0, "matmul on the cube: groups=", p.groups, " without a split. Pass split m or k.");
  } else {
    require(p.groups >= 1 && p.batches == 1, "matmul on the cube: a grouped product has groups=", p.groups,
            " and batches=", p.batches, ", but it needs at least one group, and has no batches.");
    require(!is_fp4(p) || (p.split == MatmulSplit::kM && !p.a.k_leading), "matmul on the cube: A is ", a.name,
            ", whose groups could start in the middle of a byte. Split FP4 along m, with A stored as [M, K].");
  }
  check_operand("a", p.a, p.m, p.k, is_fp4(p));
  check_operand("b", p.b, p.n, p.k, is_fp4(p));
}

// --- Cost model --------------------------------------------------------------------------------------------------

// Cycles, from the published figures of the chip: what a tile occupies of each pipe.
constexpr double kPortBytes = 88;    // GM -> L1, all cores busy
constexpr double kRowCycles = 0.8;   // of each row of a copy, beside its bytes
constexpr double kMissCycles = 5.2;  // of a row that is not in L2, at least
constexpr double kCopyIssue = 39;
constexpr double kLoadIssue = 40;  // L1 -> L0, beside 256 bytes a cycle and 32 of scales
constexpr double kMmadIssue = 8;
constexpr double kStepIssue = 15 * 3 + 8;  // the scalar unit, for one step of K
constexpr double kStoreBytes = 94;         // L0C -> GM
constexpr double kStoreIssue = 283;
constexpr double kStoreExposed = 0.3;  // of a store, where L0C holds one tile only
constexpr double kLatency = 300;       // GM -> L1

// Rows of which a share is read for the first time, from HBM.
double rows_cost(double rows, double bytes, double first_share) {
  const double hit = bytes / kPortBytes + kRowCycles;
  return rows * (hit + first_share * std::max(kMissCycles - hit, 0.0));
}

// The problem as the cost model sees it: products of one size each, as many as there are groups or batches.
struct Workload {
  std::vector<double> m;  // sizes that stand for the distribution; equally many products have each
  double n, k, count;
};

Workload workload(const MatmulProblem& p) {
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double groups = static_cast<double>(std::max<int64_t>(p.groups, 1));
  if (p.split == MatmulSplit::kM) {
    const double mean = std::max(m / groups, 1.0);
    std::vector<double> sizes;  // anything up to twice the mean
    for (const double share : {0.2, 0.6, 1.0, 1.4, 1.8}) sizes.push_back(std::max(mean * share, 1.0));
    return {sizes, n, k, groups};
  }
  if (p.split == MatmulSplit::kK) return {{m}, n, std::max(k / groups, 1.0), groups};
  return {{m}, n, k, static_cast<double>(p.batches)};
}

struct TileCost {
  double cycles;  // in a sequence of tiles
  double first;   // until the first multiplication of the first tile
  double store;   // after the last multiplication of the last tile
};

TileCost tile_cost(const MatmulProblem& p, const MatmulTiling& t, double m, double n, double k, double m_tiles,
                   double n_tiles) {
  const double c0 = is_fp4(p) ? 64 : 32, steps = std::max(std::ceil(k / t.base_k), 1.0);
  const double chunks = std::ceil(steps / t.step_k), loads = std::ceil(chunks / t.scale_factor);
  const double cube = std::ceil(m / 16) * std::ceil(n / 16) * std::ceil(k / c0) + steps * kMmadIssue;
  double copy = 0, load = 0;
  for (const bool is_a : {true, false}) {
    const MatmulOperandTiling& x = is_a ? t.a : t.b;
    const double rows = is_a ? m : n, first = 1 / (is_a ? n_tiles : m_tiles);
    const double row_bytes = (x.k_leading ? rows : k / chunks) * 32 / c0;
    copy += rows_cost(x.k_leading ? k : rows * chunks, row_bytes, first) + chunks * kCopyIssue;
    load += rows * k * 32 / c0 / 256 + steps * kLoadIssue;
    if (!is_mx(p)) continue;
    const double pairs = std::ceil(k / kScaledPair);
    copy += loads * kCopyIssue +
            (x.scale_k_leading ? rows_cost(pairs, 2 * rows, first) : rows_cost(rows * loads, 2 * pairs / loads, first));
    load += rows * pairs * 2 / 32;
  }
  const double store = m * n * (p.out == MatmulOut::kFloat32 ? 4 : 2) / kStoreBytes + kStoreIssue;
  const double exposed = t.l0c_slots == 1 ? store * kStoreExposed : 0;
  // A buffer is taken, filled, used and given back: all of them together bound how fast chunks follow each other.
  const double turn = (chunks * kLatency + copy + std::max(cube, load)) / t.stages;
  const double cycles = std::max({cube, copy, load, turn, store - exposed, steps * kStepIssue}) + exposed;
  return {cycles, kLatency + copy / chunks, store};
}

}  // namespace

double matmul_cost(const MatmulProblem& p, const MatmulTiling& t, int cores) {
  const Workload w = workload(p);
  double tiles = 0, cycles = 0, longest = 0, ends = 0;
  const double n_tiles = std::ceil(w.n / t.b.base);
  for (const double m : w.m) {
    const double m_tiles = std::ceil(m / t.a.base),
                 count = w.count / static_cast<double>(w.m.size()) * m_tiles * n_tiles;
    const TileCost one = tile_cost(p, t, m / m_tiles, w.n / n_tiles, w.k, m_tiles, n_tiles);
    tiles += count;
    cycles += count * one.cycles;
    longest = std::max(longest, one.cycles);
    ends = std::max(ends, one.first + one.store);
  }
  // Groups of rows differ in size: cores end at different times, half a tile apart on average.
  if (p.split == MatmulSplit::kM) return std::max(cycles / cores + longest / 2, longest) + ends;
  return std::ceil(tiles / cores - 1e-9) * (cycles / tiles) + ends;
}

namespace {

// --- Choosing ----------------------------------------------------------------------------------------------------

int64_t bytes_of(const MatmulProblem& p, int64_t elements) {
  return is_fp4(p) ? elements / 2 : elements;
}

uint32_t bias_bytes(const MatmulProblem& p, const MatmulTiling& t) {
  return p.has_bias ? static_cast<uint32_t>(align_up(t.b.base * 4, 64)) : 0;
}

// Bytes of scales of one slot, for as much of K as scale_factor chunks can have.
uint32_t scale_bytes(const MatmulProblem& p, const MatmulTiling& t, uint32_t rows) {
  if (!is_mx(p)) return 0;
  const int64_t k = std::min<int64_t>(int64_t{t.scale_factor} * t.step_k * t.base_k,
                                      std::max<int64_t>(align_up(p.k, kScaledPair), kScaledPair));
  return static_cast<uint32_t>(align_up(rows, kFractalRows) * k / 32);
}

uint32_t chunk_bytes(const MatmulProblem& p, const MatmulTiling& t, uint32_t rows) {
  return static_cast<uint32_t>(bytes_of(p, int64_t{rows} * t.step_k * t.base_k));
}

// Lays L1 out: each half holds every other chunk and one slot of scales. False if it does not fit.
bool place(const MatmulProblem& p, MatmulTiling& t) {
  for (uint32_t half = 0; half < 2; ++half) {
    uint32_t at = half * kL1HalfBytes;
    const auto take = [&at](uint32_t bytes) {
      const uint32_t begin = at;
      at += bytes;
      return begin;
    };
    for (uint32_t stage = half; stage < t.stages; stage += 2) {
      t.a.l1[stage] = take(chunk_bytes(p, t, t.a.base));
      t.b.l1[stage] = take(chunk_bytes(p, t, t.b.base));
    }
    t.a.scale_l1[half] = take(scale_bytes(p, t, t.a.base));
    t.b.scale_l1[half] = take(scale_bytes(p, t, t.b.base));
    t.bias_l1[half] = take(bias_bytes(p, t));
    if (at > (half + 1) * kL1HalfBytes) return false;
  }
  return true;
}

bool fits_l0(const MatmulProblem& p, const MatmulTiling& t) {
  for (const uint32_t rows : {t.a.base, t.b.base}) {
    if (bytes_of(p, int64_t{rows} * t.base_k) > kL0SlotBytes) return false;
    if (is_mx(p) && align_up(rows, kFractalRows) * t.base_k / 32 > kL0MxSlotBytes) return false;
  }
  return t.a.base * t.b.base * 4 * t.l0c_slots <= kL0CBytes && (!p.has_bias || t.b.base * 4 <= kBiasSlotBytes);
}

// Gives scale_factor its largest value that fits, the chunks of K dealt evenly to the loads. False if none does.
bool choose_scales(const MatmulProblem& p, MatmulTiling& t, uint32_t wanted) {
  const int64_t chunks = std::max<int64_t>(div_up(p.k, int64_t{t.base_k} * t.step_k), 1);
  const auto fits = [&](int64_t factor) {
    t.scale_factor = static_cast<uint32_t>(factor);
    return place(p, t);
  };
  if (wanted != 0) return fits(wanted);
  if (!is_mx(p)) return fits(1);
  int64_t low = 0, high = chunks;  // the largest factor that fits is in [low, high]
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    fits(middle) ? low = middle : high = middle - 1;
  }
  return low != 0 && fits(div_up(chunks, div_up(chunks, low)));
}

// The most rows of which L0 holds 128 bytes of K; shorter steps do not hide the store.
constexpr uint32_t kMaxBase = kL0SlotBytes / 128;

// Sizes of tiles to try, each evened out over the extent.
std::vector<uint32_t> base_candidates(int64_t extent, uint32_t align, uint32_t wanted, bool exact) {
  if (wanted != 0) return {static_cast<uint32_t>(align_up(wanted, align))};
  std::vector<uint32_t> bases;
  for (const int64_t size : {256, 192, 128, 160, 96, 64, 48, 32, 16}) {
    const int64_t part = exact ? div_up(extent, div_up(extent, size)) : size;
    const auto base = static_cast<uint32_t>(align_up(part, align));
    if (base <= kMaxBase && std::find(bases.begin(), bases.end(), base) == bases.end()) bases.push_back(base);
  }
  return bases;
}

uint32_t base_k_for(const MatmulProblem& p, uint32_t rows, int64_t k) {
  int64_t base = 64;
  while (base < k && bytes_of(p, 2 * base * rows) <= kL0SlotBytes && bytes_of(p, 2 * base) <= 512) base *= 2;
  return static_cast<uint32_t>(base);
}

MatmulTiling fixed_part(const MatmulProblem& p) {
  MatmulTiling t{};
  const uint32_t square = is_fp4(p) ? 64 : 32;
  for (const auto& [from, to] : {std::pair<const MatmulMatrix&, MatmulOperandTiling&>{p.a, t.a}, {p.b, t.b}}) {
    // Strides of dimensions of size 1 are arbitrary; a copy wants them positive.
    const int64_t rows = &from == &p.a ? p.m : p.n;
    const int64_t lines = from.k_leading ? p.k : rows, width = from.k_leading ? rows : p.k;
    to.pitch = static_cast<uint64_t>(lines <= 1 ? std::max<int64_t>(width, 1) : from.pitch);
    to.batch_stride = static_cast<uint64_t>(from.batch_stride);
    to.scale_pitch = static_cast<uint64_t>(std::max<int64_t>(from.scale_pitch, 1));
    to.scale_batch_stride = static_cast<uint64_t>(from.scale_batch_stride);
    to.k_leading = from.k_leading;
    to.scale_k_leading = from.scale_k_leading;
    to.align = from.k_leading ? square : kFractalRows;
  }
  t.m = static_cast<uint64_t>(p.m);
  t.n = static_cast<uint64_t>(p.n);
  t.k = static_cast<uint64_t>(p.k);
  t.batches = static_cast<uint64_t>(p.batches);
  t.out_pitch = static_cast<uint64_t>(p.out_pitch != 0 ? p.out_pitch : p.n);
  t.out_batch_stride = static_cast<uint64_t>(p.out_batch_stride != 0 ? p.out_batch_stride : p.m * p.n);
  t.window = 4;
  t.groups = static_cast<uint32_t>(p.groups);
  t.split = p.split;
  t.out = p.out;
  t.has_bias = p.has_bias;
  t.accumulate = p.accumulate;
  t.scale_out = p.scale_out;
  t.a_scale_step = p.a_scale_per_group;
  t.b_scale_step = p.b_scale_per_group;
  return t;
}

// Batches that share B and follow each other in memory are one tall matrix.
MatmulProblem fold_batches(MatmulProblem p) {
  const bool follows =
      !p.a.k_leading && p.a.pitch >= p.k && p.a.batch_stride == p.m * p.a.pitch && p.b.batch_stride == 0;
  const bool scales_follow =
      !is_mx(p) || (!p.a.scale_k_leading && p.a.scale_pitch > 0 && p.a.scale_batch_stride == p.m * p.a.scale_pitch &&
                    p.b.scale_batch_stride == 0);
  const bool out_follows =
      (p.out_pitch == 0 || p.out_pitch == p.n) && (p.out_batch_stride == 0 || p.out_batch_stride == p.m * p.n);
  if (p.batches <= 1 || !follows || !scales_follow || !out_follows) return p;
  p.m *= p.batches;
  p.batches = 1;
  return p;
}

// An upper bound where the sizes of the groups are on the device.
int64_t count_tiles(const MatmulProblem& p, const MatmulTiling& t) {
  const int64_t rows = div_up(p.m, t.a.base), columns = div_up(p.n, t.b.base);
  if (p.split == MatmulSplit::kM) return (rows + p.groups) * columns;
  return rows * columns * (p.split == MatmulSplit::kK ? p.groups : p.batches);
}

}  // namespace

MatmulTiling make_matmul_tiling(const MatmulProblem& problem, int cores, const MatmulTilingChoice* choice) {
  check_problem(problem, cores);
  const MatmulProblem p = fold_batches(problem);
  const MatmulTilingChoice wanted = choice != nullptr ? *choice : MatmulTilingChoice{};
  MatmulTiling t = fixed_part(p), best{};
  if (p.m == 0 || p.n == 0 || p.batches == 0) return t;
  const auto mean_k = static_cast<int64_t>(workload(p).k);
  double best_cost = 0;
  for (const uint32_t base_m : base_candidates(p.m, t.a.align, wanted.base_m, p.split != MatmulSplit::kM)) {
    for (const uint32_t base_n : base_candidates(p.n, t.b.align, wanted.base_n, true)) {
      t.a.base = base_m;
      t.b.base = base_n;
      t.base_k = wanted.base_k != 0 ? wanted.base_k : base_k_for(p, std::max(base_m, base_n), mean_k);
      t.l0c_slots = base_m * base_n * 4 * 2 <= kL0CBytes ? 2 : 1;
      if (!fits_l0(p, t)) continue;
      const auto most = static_cast<uint32_t>(std::clamp<int64_t>(div_up(mean_k, t.base_k), 1, 8));
      t.stages = kMaxStages;  // at best; most pairs are not worth a closer look
      t.step_k = t.scale_factor = most;
      if (best.stages != 0 && matmul_cost(p, t, cores) >= best_cost) continue;
      for (const uint32_t stages : {2u, 4u}) {
        if (wanted.stages != 0 && stages != wanted.stages) continue;
        for (uint32_t step_k = most; step_k >= 1; --step_k) {
          t.stages = stages;
          t.step_k = wanted.step_k != 0 ? wanted.step_k : step_k;
          if (!choose_scales(p, t, wanted.scale_factor)) continue;
          const double cost = matmul_cost(p, t, cores);
          if (best.stages == 0 || cost < best_cost) {
            best = t;
            best_cost = cost;
          }
          if (wanted.step_k != 0) break;
        }
      }
    }
  }
  require(best.stages != 0, "matmul on the cube: no tiling fits base_m=", wanted.base_m, ", base_n=", wanted.base_n,
          ", base_k=", wanted.base_k, ", step_k=", wanted.step_k, ", scale_factor=", wanted.scale_factor,
          ", stages=", wanted.stages,
          " into L0 (2 x 32 KB each), L0C (256 KB) and L1 (2 x 256 KB). Choose smaller ones, or 0 for the default.");
  best.blocks = static_cast<uint32_t>(std::min<int64_t>(cores, count_tiles(p, best)));
  return best;
}

}  // namespace npu_lp::ascend
