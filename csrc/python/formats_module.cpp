// csrc/formats for Python, so that tests (and the curious) can ask the one definition of the bits. Arrays are numpy's.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>

#include "formats/e8m0.h"
#include "formats/formats.h"
#include "formats/scale_rule.h"

namespace py = pybind11;
using namespace npu_lp;

namespace {

const FormatInfo& find(const std::string& name) {
  for (const FormatInfo& fmt : kFormats) {
    if (fmt.name == name) return fmt;
  }
  throw py::value_error("unknown format \"" + name + "\"; npu_lp._formats.FORMATS lists the known ones");
}

Rounding rounding_of(const std::string& name) {
  if (name == "rint") return Rounding::kRint;
  if (name == "round") return Rounding::kRound;
  if (name == "floor") return Rounding::kFloor;
  throw py::value_error("unknown rounding \"" + name + "\"; pass \"rint\", \"round\" or \"floor\"");
}

template <typename Out, typename In, typename F>
py::array_t<Out> map(const py::array_t<In, py::array::c_style | py::array::forcecast>& in, F&& f) {
  py::array_t<Out> out(std::vector<py::ssize_t>(in.shape(), in.shape() + in.ndim()));
  for (py::ssize_t i = 0; i < in.size(); ++i) out.mutable_data()[i] = f(in.data()[i]);
  return out;
}

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Bytes = py::array_t<uint8_t, py::array::c_style | py::array::forcecast>;

}  // namespace

PYBIND11_MODULE(_formats, m) {
  m.doc() = "The codecs and scale rules of csrc/formats, element by element, on numpy arrays.";

  py::dict formats;
  for (const FormatInfo& fmt : kFormats) {
    py::dict entry;
    entry["bits"] = fmt.bits;
    entry["emax"] = fmt.emax;
    entry["max_value"] = fmt.max_value;
    entry["is_mx"] = fmt.is_mx;
    entry["on_npu"] = fmt.on_npu;
    formats[py::str(std::string(fmt.name))] = entry;
  }
  m.attr("FORMATS") = formats;

  m.def(
      "decode",
      [](const std::string& fmt, const Bytes& codes) {
        const Format format = find(fmt).format;
        return map<float>(codes, [format](uint8_t code) { return decode(format, code); });
      },
      py::arg("fmt"), py::arg("codes"), "The fp32 value of each code.");
  m.def(
      "encode",
      [](const std::string& fmt, const Floats& values, const std::string& rounding, bool saturate) {
        const Format format = find(fmt).format;
        const Rounding mode = rounding_of(rounding);
        if (format == Format::kHiF8) {
          if (mode != Rounding::kRound)
            throw py::value_error("hif8 rounds ties away from zero: pass rounding=\"round\"");
          return map<uint8_t>(values, [saturate](float value) { return HiF8::encode(value, saturate); });
        }
        if (!saturate) throw py::value_error("only hif8 has an encoding that does not saturate: pass saturate=True");
        return with_codec(format, [&](auto codec) {
          return map<uint8_t>(values, [mode](float value) { return decltype(codec)::encode(value, mode); });
        });
      },
      py::arg("fmt"), py::arg("values"), py::arg("rounding") = "rint", py::arg("saturate") = true,
      "The code of each fp32 value.");
  m.def(
      "scale_floor",
      [](const Floats& amax, int emax) {
        return map<uint8_t>(amax, [emax](float value) { return scale_floor(bits_of(value) & kAbsMask, emax); });
      },
      py::arg("amax"), py::arg("emax"), "scale_alg 0: the scale byte of each block maximum.");
  m.def(
      "scale_rceil",
      [](const Floats& amax, float max_value) {
        const float inverse = 1.0f / max_value;
        return map<uint8_t>(amax, [inverse](float value) { return scale_rceil(bits_of(value) & kAbsMask, inverse); });
      },
      py::arg("amax"), py::arg("max_value"), "scale_alg 1: the scale byte of each block maximum.");
  m.def(
      "scale_dtype_range",
      [](const Floats& amax, float dst_max, int emax, bool truncate) {
        return map<uint8_t>(amax, [=](float value) {
          return scale_dtype_range(amax_as_bf16(bits_of(value) & kAbsMask, truncate), dst_max, emax);
        });
      },
      py::arg("amax"), py::arg("dst_max"), py::arg("emax"), py::arg("truncate") = true,
      "scale_alg 2: the scale byte of each block maximum.");
  m.def(
      "e8m0_value", [](const Bytes& codes) { return map<float>(codes, [](uint8_t byte) { return e8m0_value(byte); }); },
      py::arg("codes"), "2^(byte-127), NaN for 255.");
}
