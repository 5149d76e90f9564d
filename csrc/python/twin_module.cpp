// npu_lp._twin: the twin's settings, what its launches recorded, and its errors as a Python exception.
// python/npu_lp/twin has the documented face.
#include "python/twin_module.h"

#include <torch/csrc/Exceptions.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "ascend/host/twin_runtime.h"
#include "python/twin_timing.h"

namespace npu_lp {

namespace {

using ascend::TwinSettings;
using twin::LaunchRecord;
using twin::Mode;

constexpr std::pair<const char*, Mode> kModes[] = {
    {"order", Mode::kProgramOrder}, {"shuffled", Mode::kShuffled}, {"timing", Mode::kTimingOnly}};

py::dict settings_dict(const TwinSettings& settings) {
  py::dict result;
  for (const auto& [name, mode] : kModes) {
    if (mode == settings.mode) result["mode"] = name;
  }
  result["seed"] = settings.seed;
  result["cores"] = settings.cores;
  result["strict"] = settings.strict;
  result["record"] = settings.record;
  result["threads"] = settings.threads;
  result["keep"] = settings.keep;
  return result;
}

void set_settings(const std::string& mode, uint64_t seed, int cores, bool strict, bool record, int threads,
                  size_t keep) {
  TwinSettings settings{Mode::kProgramOrder, seed, cores, strict, record, threads, keep};
  bool known = false;
  for (const auto& [name, value] : kModes) {
    if (mode != name) continue;
    settings.mode = value;
    known = true;
  }
  if (!known) {
    throw py::value_error("npu_lp.twin: mode=\"" + mode + "\" is unknown. Pass \"order\", \"shuffled\" or \"timing\".");
  }
  ascend::set_twin_settings(settings);
}

// Instructions and bytes a pipe, over all blocks of a launch.
py::dict summary(const LaunchRecord& launch) {
  std::array<uint64_t, twin::kPipes> instructions{}, bytes{};
  for (const auto& core : launch.cores) {
    for (const twin::Record& record : core) {
      if (record.op == twin::Op::kSet || record.op == twin::Op::kWait || record.op == twin::Op::kBarrier) continue;
      ++instructions[static_cast<size_t>(record.pipe)];
      bytes[static_cast<size_t>(record.pipe)] += record.bytes;
    }
  }
  py::dict result;
  for (int pipe = 0; pipe < twin::kPipes; ++pipe) {
    const size_t i = static_cast<size_t>(pipe);
    if (instructions[i] == 0) continue;
    result[twin::pipe_name(static_cast<twin::Pipe>(pipe))] = std::make_pair(instructions[i], bytes[i]);
  }
  return result;
}

// The Python exception class, kept for the life of the process.
py::object* error_class = nullptr;

// Throws what torch's bindings and its autograd engine understand: the Python error that was set.
void throw_python_error(const twin::TwinError& error) {
  {
    const py::gil_scoped_acquire gil;
    py::list reports;
    for (const twin::Report& report : error.reports()) {
      reports.append(py::make_tuple(twin::check_name(report.check), report.loc.file, report.loc.line, report.block,
                                    report.message));
    }
    const py::object value = (*error_class)(error.what(), reports);
    PyErr_SetObject(error_class->ptr(), value.ptr());
  }
  python_error thrown;
  thrown.persist();
  throw thrown;
}

}  // namespace

PYBIND11_MODULE(_twin, m) {
  m.def("settings", [] { return settings_dict(ascend::twin_settings()); });
  m.def("set_settings", &set_settings, py::kw_only(), py::arg("mode"), py::arg("seed"), py::arg("cores"),
        py::arg("strict"), py::arg("record"), py::arg("threads"), py::arg("keep"));
  m.def("launches", &ascend::twin_launches);
  m.def("clear", &ascend::clear_twin_records);
  m.def("set_error_class", [](const py::object& type) {
    if (error_class == nullptr) error_class = new py::object();
    *error_class = type;
    ascend::set_twin_error_handler(throw_python_error);
  });
  py::class_<LaunchRecord, std::shared_ptr<LaunchRecord>>(m, "LaunchRecord")
      .def_readonly("kernel", &LaunchRecord::kernel)
      .def_property_readonly("kind",
                             [](const LaunchRecord& r) { return r.kind == twin::CoreKind::kCube ? "cube" : "vector"; })
      .def_property_readonly("blocks", [](const LaunchRecord& r) { return r.cores.size(); })
      .def("summary", &summary);
  m.def("records", [] {
    std::vector<std::shared_ptr<LaunchRecord>> result;
    for (const auto& record : ascend::twin_records()) result.push_back(std::const_pointer_cast<LaunchRecord>(record));
    return result;
  });
  add_timing(m);
}

}  // namespace npu_lp
