// dequantize, amax_bits and encode_scaled.
#include <sstream>

#include "cases.h"
#include "values.h"

namespace npu_lp::cpu::test {

namespace {

const char* const kTypes[] = {"bf16", "fp16", "fp32"};

FloatType choose_type(Source& from) {
  return from.pick({FloatType::kBFloat16, FloatType::kFloat16, FloatType::kFloat32});
}

Buffer random_bytes(Source& from, size_t size) {
  Buffer bytes(size);
  for (size_t i = 0; i < size; ++i) bytes.data()[i] = static_cast<uint8_t>(from.below(256));
  return bytes;
}

void store(FloatType type, const Buffer& out, int64_t at, float value) {
  const uint32_t bits = narrowed(type, value);
  std::memcpy(out.data() + static_cast<size_t>(at) * size_of(type), &bits, size_of(type));
}

}  // namespace

int64_t check_dequantize(Source& from, Format format, const Limits& limits, Tally& tally) {
  const FloatType type = choose_type(from);
  const int64_t block = from.one_in(2) ? kMxBlock : from.pick<int64_t>({16, 64, 128});
  const int64_t outer = from.between(1, 4), most = std::max<int64_t>(limits.elements / outer, 2);
  const int64_t depth = std::min(ragged(from, 600), most);
  int64_t inner = from.one_in(2) ? 1 : std::min(ragged(from, 600), std::max<int64_t>(most / depth, 1));
  int64_t even_depth = depth;
  if (info(format).bits == 4) {  // the last dimension is packed
    if (inner == 1) {
      even_depth += depth % 2;
    } else {
      inner += inner % 2;
    }
  }
  std::ostringstream text;
  text << "dequantize " << info(format).name << " [" << outer << ", " << even_depth << ", " << inner << "] -> "
       << kTypes[static_cast<int>(type)] << ", block " << block;
  describe(text.str());
  const int64_t values = outer * even_depth * inner, pairs = ceil_div(ceil_div(even_depth, block), 2);
  const Buffer codes = random_bytes(from, static_cast<size_t>(values * info(format).bits / 8));
  const Buffer scales = random_bytes(from, static_cast<size_t>(outer * pairs * inner * 2));
  const size_t bytes = static_cast<size_t>(values) * size_of(type);
  const Buffer expected(bytes);
  for (int64_t at = 0; at < values; ++at) {
    const int64_t slice = at / inner / even_depth, d = at / inner % even_depth, n = at % inner, j = d / block;
    const uint8_t byte = scales.data()[((slice * pairs + j / 2) * inner + n) * 2 + j % 2];
    store(type, expected, at, decode(format, read_code(format, codes.data(), at)) * e8m0_value(byte));
  }
  const int64_t lines = inner == 1 ? outer : outer * even_depth;
  for (const Kernels* table : tables) {
    const Buffer actual(bytes);
    const DequantArgs args{format, block, codes.data(), scales.data(), outer, even_depth, inner, actual.data(), type};
    Units units;
    for (const auto& [begin, end] : cut(from, lines)) {
      units.push_back([&, begin = begin, end = end](void*) { table->dequantize(args, begin, end); });
    }
    run(from, *table, units);
    expect_equal(std::string("dequantize ") + table->name, expected, actual, size_of(type));
  }
  tally.add("dequantize", std::string(info(format).name), values);
  return values;
}

int64_t check_amax(Source& from, FloatType type, const Limits& limits, Tally& tally) {
  const int64_t size = from.one_in(4) ? limits.elements : ragged(from, limits.elements);
  const int64_t begin = from.between(0, size), end = from.between(begin, size);
  std::ostringstream text;
  text << "amax_bits of " << kTypes[static_cast<int>(type)] << " [" << begin << ", " << end << ") of " << size;
  describe(text.str());
  const Buffer x(static_cast<size_t>(size) * size_of(type));
  fill(from, Format::kHiF8, type, x.data(), 0, size);
  uint32_t expected = 0;
  for (int64_t i = begin; i < end; ++i) {
    expected = std::max(expected, bits_of(widened(type, stored(type, x.data(), i))) & 0x7FFFFFFFu);
  }
  for (const Kernels* table : tables) {
    const auto ranges = cut(from, end - begin);
    std::vector<uint32_t> parts(ranges.size());
    Units units;
    for (size_t i = 0; i < ranges.size(); ++i) {
      units.push_back([&, i](void*) {
        parts[i] = table->amax_bits(type, x.data(), begin + ranges[i].first, begin + ranges[i].second);
      });
    }
    run(from, *table, units);
    uint32_t actual = 0;
    for (const uint32_t part : parts) actual = std::max(actual, part);
    if (actual != expected) {
      std::ostringstream message;
      message << "amax_bits " << table->name << std::hex << ": 0x" << actual << ", must be 0x" << expected << "\n  "
              << text.str();
      throw Failure(message.str());
    }
  }
  tally.add("amax_bits", kTypes[static_cast<int>(type)], end - begin);
  return end - begin;
}

int64_t check_encode(Source& from, Format format, const Limits& limits, Tally& tally) {
  const FloatType type = choose_type(from);
  const int64_t size = from.one_in(4) ? limits.elements : ragged(from, limits.elements);
  const int64_t begin = from.one_in(2) ? 0 : from.between(0, size), end = from.between(begin, size);
  // Scales as amax gives them, and what else an fp32 may be.
  const float scale = from.one_in(4)   ? float_of(static_cast<uint32_t>(from.bits()))
                      : from.one_in(8) ? from.pick({0.0f, 1.0f, HUGE_VALF, 0x1p-149f, 0x1p-126f})
                                       : static_cast<float>(std::ldexp(1.0 + (from.one_in(2) ? 0.0 : from.uniform()),
                                                                       static_cast<int>(from.between(-30, 30))));
  std::ostringstream text;
  text << "encode_scaled " << kTypes[static_cast<int>(type)] << " -> " << info(format).name << " [" << begin << ", "
       << end << ") of " << size << ", scale " << std::hexfloat << scale;
  describe(text.str());
  const Buffer x(static_cast<size_t>(size) * size_of(type)), expected(static_cast<size_t>(size));
  fill(from, format, type, x.data(), 0, size, scale);
  for (int64_t i = begin; i < end; ++i) {
    const float quotient = widened(type, stored(type, x.data(), i)) / scale;
    expected.data()[i] = format == Format::kHiF8
                             ? HiF8::encode(quotient, true)
                             : with_codec(format, [&](auto codec) { return decltype(codec)::encode(quotient); });
  }
  for (const Kernels* table : tables) {
    const Buffer actual(static_cast<size_t>(size));
    Units units;
    for (const auto& [first, last] : cut(from, end - begin)) {
      units.push_back([&, first = begin + first, last = begin + last](void*) {
        table->encode_scaled(format, type, x.data(), first, last, scale, actual.data());
      });
    }
    run(from, *table, units);
    expect_equal(std::string("encode_scaled ") + table->name, expected, actual, 1);
  }
  tally.add("encode_scaled", std::string(info(format).name), end - begin);
  return end - begin;
}

}  // namespace npu_lp::cpu::test
