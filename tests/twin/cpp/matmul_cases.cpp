#include "matmul_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "ascend/launch/matmul.h"
#include "formats/bits.h"

namespace matmul_cases {

namespace {

using namespace npu_lp;
using namespace npu_lp::ascend;

int64_t div_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

bool is_mx(const MatmulProblem& p) {
  return info(p.a_format).is_mx;
}

// One operand in memory and as numbers. Values are small multiples of 1/4, scales are powers of two that differ from
// block to block and from row to row.
struct Matrix {
  std::vector<uint8_t> data, scales;
  std::vector<double> values;  // [batch][row][k], scaled
};

struct Shape {
  int64_t batches, rows, k;
  std::vector<int64_t> scale_starts;  // first k of each run of scales, and the pair line it starts on
  std::vector<int64_t> scale_lines;
  int64_t lines;  // pair lines
};

std::vector<uint8_t> small_codes(Format format) {
  std::vector<uint8_t> codes;
  for (uint32_t code = 0; code < (1u << info(format).bits); ++code) {
    const float value = decode(format, code);
    if (std::abs(value) <= 4 && value * 4 == std::floor(value * 4) && std::isfinite(value)) {
      codes.push_back(static_cast<uint8_t>(code));
    }
  }
  return codes;
}

Matrix make_matrix(const Shape& shape, Format format, MatmulMatrix& layout, bool shared, bool apart,
                   std::mt19937_64& random) {
  const int64_t gap = apart ? 6 : 0;
  const int64_t lines = layout.k_leading ? shape.k : shape.rows, width = layout.k_leading ? shape.rows : shape.k;
  const int64_t bits = info(format).bits;
  layout.pitch = width + gap;
  const int64_t batch = lines == 0 || width == 0 ? 0 : (lines - 1) * layout.pitch + width + gap;
  layout.batch_stride = shared ? 0 : batch + batch % 2;
  const int64_t batches = shared ? 1 : shape.batches;
  const bool mx = info(format).is_mx;
  const int64_t pairs = layout.scale_k_leading ? shape.rows : shape.lines;
  layout.scale_pitch = pairs + gap;
  const int64_t scale_lines = layout.scale_k_leading ? shape.lines : shape.rows;
  layout.scale_batch_stride = shared ? 0 : scale_lines * layout.scale_pitch;
  Matrix matrix;
  // No byte more than the last element needs.
  const auto size = [](int64_t count, int64_t stride, int64_t rest) {
    return count == 0 ? 0 : (count - 1) * stride + rest;
  };
  const int64_t elements =
      lines == 0 || width == 0 ? 0 : size(batches, layout.batch_stride, (lines - 1) * layout.pitch + width);
  matrix.data.assign(static_cast<size_t>(div_up(elements * bits, 8)), 0);
  for (uint8_t& byte : matrix.data) byte = static_cast<uint8_t>(random());  // gaps hold anything
  if (mx && scale_lines > 0) {
    matrix.scales.assign(static_cast<size_t>(2 * size(batches, layout.scale_batch_stride,
                                                      (scale_lines - 1) * layout.scale_pitch + pairs)),
                         0);
  }
  for (uint8_t& byte : matrix.scales) byte = static_cast<uint8_t>(100 + random() % 50);
  matrix.values.resize(static_cast<size_t>(shape.batches * shape.rows * shape.k));
  const std::vector<uint8_t> codes = small_codes(format);
  std::vector<int> row_scale(static_cast<size_t>(shape.rows));
  for (int& scale : row_scale) scale = 127 + static_cast<int>(random() % 9) - 4;
  for (int64_t b = 0; b < shape.batches; ++b) {
    const int64_t from = shared ? 0 : b;
    for (int64_t row = 0; row < shape.rows; ++row) {
      size_t run = 0;
      int scale = 127;
      for (int64_t k = 0; k < shape.k; ++k) {
        while (run + 1 < shape.scale_starts.size() && k >= shape.scale_starts[run + 1]) ++run;
        const int64_t in_run = k - shape.scale_starts[run];
        const int64_t at =
            from * layout.batch_stride + (layout.k_leading ? k * layout.pitch + row : row * layout.pitch + k);
        if (mx) {
          const int64_t line = shape.scale_lines[run] + in_run / 64;
          const int64_t pair =
              from * layout.scale_batch_stride +
              (layout.scale_k_leading ? line * layout.scale_pitch + row : row * layout.scale_pitch + line);
          uint8_t& byte = matrix.scales[static_cast<size_t>(pair * 2 + in_run % 64 / 32)];
          if (in_run % 32 == 0 && from == b) {
            byte = static_cast<uint8_t>(row_scale[static_cast<size_t>(row)] + static_cast<int>(random() % 3) - 1);
          }
          scale = byte;
        }
        uint8_t code = 0;
        const auto byte = static_cast<size_t>(bits == 4 ? at / 2 : at);
        if (from == b) {
          code = codes[random() % codes.size()];
          if (bits == 8) {
            matrix.data[byte] = code;
          } else {
            const int shift = at % 2 == 0 ? 0 : 4;
            matrix.data[byte] = static_cast<uint8_t>((matrix.data[byte] & ~(15 << shift)) | code << shift);
          }
        } else {
          code = bits == 8 ? matrix.data[byte] : matrix.data[byte] >> (at % 2 == 0 ? 0 : 4) & 15;
        }
        matrix.values[static_cast<size_t>((b * shape.rows + row) * shape.k + k)] =
            std::ldexp(static_cast<double>(decode(format, code)), scale - 127);
      }
    }
  }
  return matrix;
}

uint32_t out_bytes(MatmulOut out) {
  return out == MatmulOut::kFloat32 ? 4 : 2;
}

uint32_t encode(MatmulOut out, float value) {
  if (out == MatmulOut::kBFloat16) return narrow_bf16(value);
  return out == MatmulOut::kFloat16 ? narrow_fp16(value) : bits_of(value);
}

uint32_t read(const std::vector<uint8_t>& bytes, int64_t index, uint32_t size) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + index * size, size);
  return value;
}

const char* name(Format format) {
  return info(format).name.data();
}

}  // namespace

std::string describe(const Case& c) {
  const MatmulProblem& p = c.problem;
  std::ostringstream out;
  out << name(p.a_format) << " x " << name(p.b_format) << " m=" << p.m << " n=" << p.n << " k=" << p.k
      << " batches=" << p.batches << (c.a_shared ? " a shared" : "") << (c.b_shared ? " b shared" : "") << " a "
      << (p.a.k_leading ? "KM" : "MK") << (p.a.scale_k_leading ? "/K" : "/M") << " b " << (p.b.k_leading ? "KN" : "NK")
      << (p.b.scale_k_leading ? "/K" : "/N") << " out=" << static_cast<int>(p.out) << (p.has_bias ? " bias" : "")
      << (p.accumulate ? " accumulate" : "") << (p.scale_out ? " scaled" : "") << (c.apart ? " apart" : "")
      << " split=" << static_cast<int>(p.split) << " ends=";
  for (int64_t end : c.ends) out << end << ",";
  out << " cores=" << c.cores << " mode=" << static_cast<int>(c.options.mode) << "/" << c.options.seed << " base "
      << c.choice.base_m << "x" << c.choice.base_n << "x" << c.choice.base_k << " step " << c.choice.step_k << " scale "
      << c.choice.scale_factor << " stages " << c.choice.stages;
  return out.str();
}

int64_t run(Case& c, uint64_t seed, std::string& first_wrong) {
  std::mt19937_64 random(seed);
  MatmulProblem& p = c.problem;
  const auto groups = static_cast<int64_t>(c.ends.size());
  const bool by_rows = p.split == MatmulSplit::kM, by_k = p.split == MatmulSplit::kK;
  p.groups = groups;
  Shape a{p.batches, p.m, p.k, {0}, {0}, div_up(p.k, 64)},
      b{by_rows ? groups : p.batches, p.n, p.k, {0}, {0}, div_up(p.k, 64)};
  if (by_k) {
    int64_t start = 0;
    a.scale_starts.clear();
    a.scale_lines.clear();
    for (int64_t g = 0; g < groups; ++g) {
      a.scale_starts.push_back(start);
      a.scale_lines.push_back(start / 64 + g);
      start = c.ends[static_cast<size_t>(g)];
    }
    a.lines = p.k / 64 + groups;
    b = {1, p.n, p.k, a.scale_starts, a.scale_lines, a.lines};
  }
  const Matrix ma = make_matrix(a, p.a_format, p.a, c.a_shared, c.apart, random);
  const Matrix mb = make_matrix(b, p.b_format, p.b, c.b_shared, c.apart, random);
  const int64_t products = by_k ? groups : p.batches;
  std::vector<float> bias(static_cast<size_t>(p.has_bias ? p.n : 0));
  for (float& value : bias) value = static_cast<float>(static_cast<int>(random() % 17) - 8);
  const size_t scale_count_a = p.a_scale_per_group ? static_cast<size_t>(groups) : 1;
  const size_t scale_count_b = p.b_scale_per_group ? static_cast<size_t>(groups) : 1;
  std::vector<float> scale_a(scale_count_a), scale_b(scale_count_b);
  for (float& s : scale_a) s = 0.5f + static_cast<float>(random() % 1000) / 256;
  for (float& s : scale_b) s = 0.5f + static_cast<float>(random() % 1000) / 256;

  const uint32_t size = out_bytes(p.out);
  std::vector<uint8_t> out(static_cast<size_t>(products * p.m * p.n) * size, 0xAB);
  if (p.accumulate) {
    for (int64_t i = 0; i < products * p.m * p.n; ++i) {
      const auto value = static_cast<float>(static_cast<int>(random() % 33) - 16);
      std::memcpy(out.data() + i * 4, &value, 4);
    }
  }
  const std::vector<uint8_t> before = out;

  const MatmulTiling tiling = make_matmul_tiling(p, c.cores, &c.choice);
  TwinLaunch launch;
  launch.options = c.options;
  const auto range = [&](const void* begin, size_t bytes) {
    if (bytes != 0) launch.gm.push_back({begin, bytes});
  };
  range(ma.data.data(), ma.data.size());
  range(mb.data.data(), mb.data.size());
  range(ma.scales.data(), ma.scales.size());
  range(mb.scales.data(), mb.scales.size());
  range(bias.data(), bias.size() * 4);
  range(out.data(), out.size());
  range(c.ends.data(), c.ends.size() * 8);
  range(scale_a.data(), scale_a.size() * 4);
  range(scale_b.data(), scale_b.size() * 4);
  if (is_mx(p) && p.split == MatmulSplit::kNone) {
    launch_mx_matmul(&launch, tiling, p.a_format, p.b_format, ma.data.data(), mb.data.data(), ma.scales.data(),
                     mb.scales.data(), bias.data(), out.data());
  } else if (is_mx(p)) {
    launch_mx_grouped_matmul(&launch, tiling, p.a_format, p.b_format, ma.data.data(), mb.data.data(), ma.scales.data(),
                             mb.scales.data(), c.ends.data(), out.data());
  } else if (p.split == MatmulSplit::kNone) {
    launch_hif8_matmul(&launch, tiling, ma.data.data(), mb.data.data(), scale_a.data(), scale_b.data(), out.data());
  } else {
    launch_hif8_grouped_matmul(&launch, tiling, ma.data.data(), mb.data.data(), scale_a.data(), scale_b.data(),
                               c.ends.data(), out.data());
  }

  int64_t wrong = 0;
  for (int64_t product = 0; product < products; ++product) {
    for (int64_t row = 0; row < p.m; ++row) {
      int64_t group = product, k0 = 0, k1 = p.k, batch_b = product;
      if (by_k) {
        k0 = product == 0 ? 0 : c.ends[static_cast<size_t>(product - 1)];
        k1 = c.ends[static_cast<size_t>(product)];
        batch_b = 0;
      } else if (by_rows) {
        group = 0;
        while (group < groups && row >= c.ends[static_cast<size_t>(group)]) ++group;
        batch_b = group;
        if (group == groups) k1 = 0;
      }
      const double* left = ma.values.data() + ((by_k ? 0 : product) * p.m + row) * p.k;
      for (int64_t column = 0; column < p.n; ++column) {
        const double* right = mb.values.data() + (batch_b * p.n + column) * p.k;
        double sum = 0;
        for (int64_t k = k0; k < k1; ++k) sum += left[k] * right[k];
        auto value = static_cast<float>(sum);
        if (p.has_bias) value += bias[static_cast<size_t>(column)];
        if (p.scale_out && k1 > k0) {
          const float scale = scale_b[p.b_scale_per_group ? static_cast<size_t>(group) : 0] *
                              scale_a[p.a_scale_per_group ? static_cast<size_t>(group) : 0];
          value *= float_of(bits_of(scale) & 0xFFFFE000u);
        }
        const int64_t index = (product * p.m + row) * p.n + column;
        if (p.accumulate) value += float_of(read(before, index, 4));
        const uint32_t wanted = encode(p.out, value), got = read(out, index, size);
        const bool zeros =
            (wanted << 1 & (size == 4 ? ~0u : 0xFFFF)) == 0 && (got << 1 & (size == 4 ? ~0u : 0xFFFF)) == 0;
        if (wanted == got || zeros) continue;
        if (wrong++ == 0) {
          std::ostringstream text;
          text << "product " << product << " row " << row << " column " << column << ": " << std::hex << got << ", not "
               << wanted << " (" << value << ")";
          first_wrong = text.str();
        }
      }
    }
  }
  return wrong;
}

Case random_case(std::mt19937_64& random) {
  const auto pick = [&](std::initializer_list<int64_t> from) { return from.begin()[random() % from.size()]; };
  const auto chance = [&](uint64_t percent) { return random() % 100 < percent; };
  Case c;
  MatmulProblem& p = c.problem;
  const int64_t kind = pick({0, 0, 0, 1, 1, 2});
  const Format fp8[] = {Format::kE4M3, Format::kE5M2}, fp4[] = {Format::kE2M1, Format::kE1M2};
  p.a_format = kind == 0 ? fp8[random() % 2] : kind == 1 ? fp4[random() % 2] : Format::kHiF8;
  p.b_format = kind == 0 ? fp8[random() % 2] : kind == 1 ? fp4[random() % 2] : Format::kHiF8;
  const int64_t split = pick({0, 0, 1, 2});
  p.split = split == 1 ? MatmulSplit::kM : split == 2 && kind != 1 ? MatmulSplit::kK : MatmulSplit::kNone;
  const auto size = [&](int64_t most) {
    return chance(20) ? pick({1, 2, 15, 16, 17, 32, 64, 65, 128, 256})
                      : 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  p.m = size(300);
  p.n = size(300);
  p.k = chance(5) ? 0 : size(700);
  p.a.k_leading = chance(50);
  p.b.k_leading = chance(50);
  p.a.scale_k_leading = chance(50);
  p.b.scale_k_leading = chance(50);
  p.out = static_cast<MatmulOut>(random() % 3);
  if (p.split == MatmulSplit::kNone) {
    p.batches = chance(70) ? 1 : pick({2, 3, 5});
    c.a_shared = p.batches > 1 && chance(30);
    c.b_shared = p.batches > 1 && chance(30);
    p.has_bias = kind != 2 && chance(40);
  } else {
    const auto groups = static_cast<size_t>(pick({1, 2, 3, 7, 16}));
    const int64_t total = p.split == MatmulSplit::kM ? p.m : p.k;
    for (size_t g = 0; g < groups; ++g)
      c.ends.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(total + 1)));
    if (chance(60)) c.ends.back() = total;
    std::sort(c.ends.begin(), c.ends.end());
    if (kind == 1) p.a.k_leading = false;
  }
  if (kind == 1) {
    p.m += p.a.k_leading ? p.m % 2 : 0;
    p.n += p.b.k_leading ? p.n % 2 : 0;
    p.k += p.k % 2;
    p.a.packed_along_k = !p.a.k_leading;
    p.b.packed_along_k = !p.b.k_leading;
  }
  if (kind == 2) {
    p.scale_out = chance(60);
    p.a_scale_per_group = p.split != MatmulSplit::kNone && chance(50);
    p.b_scale_per_group = p.split != MatmulSplit::kNone && chance(50);
  }
  p.accumulate = p.out == MatmulOut::kFloat32 && !p.scale_out && chance(40);
  c.apart = chance(30);
  c.cores = static_cast<int>(pick({1, 2, 3, 8, 32}));
  if (chance(60)) {
    c.choice.base_m = static_cast<uint32_t>(pick({0, 64, 128, 256}));
    c.choice.base_n = static_cast<uint32_t>(pick({0, 64, 128, 256}));
    c.choice.base_k = static_cast<uint32_t>(pick({0, 64, 128}));
    c.choice.step_k = static_cast<uint32_t>(pick({0, 1, 2, 3}));
    c.choice.scale_factor = static_cast<uint32_t>(pick({0, 1, 2, 3}));
    c.choice.stages = static_cast<uint32_t>(pick({0, 2, 4}));
    // Four stages of the largest chunks do not fit.
    if (c.choice.stages == 4 && c.choice.step_k > 1) c.choice.step_k = 1;
  }
  c.options.record = false;
  if (chance(50)) {
    c.options.mode = npu_lp::twin::Mode::kShuffled;
    c.options.seed = random();
  }
  return c;
}

}  // namespace matmul_cases
