// The timing model for Python: simulate, the cost table, and launches of matmuls on addresses without memory behind
// them. python/npu_lp/twin/profile.py has the documented face.
#include "python/twin_timing.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ascend/host/twin_launch.h"
#include "ascend/launch/matmul.h"
#include "ascend/tiling/matmul_tiling.h"
#include "twin/timing/engine.h"

namespace npu_lp {

namespace {

using ascend::MatmulProblem;
using ascend::MatmulTiling;
using ascend::MatmulTilingChoice;
using twin::LaunchRecord;

const twin::Sku& sku_of(const std::string& name) {
  const twin::Sku* sku = twin::find_sku(name);
  if (sku != nullptr) return *sku;
  std::string known;
  for (const twin::Sku& each : twin::skus()) known += (known.empty() ? "" : ", ") + std::string(each.name);
  throw py::value_error("npu_lp.twin: sku=\"" + name + "\" is unknown. Pass one of " + known + ".");
}

twin::CostTable costs_of(const py::dict& changes) {
  twin::CostTable costs;
  for (const auto& [key, value] : changes) {
    const std::string name = py::cast<std::string>(key);
    bool known = false;
    for (const twin::CostRow& row : twin::cost_rows()) {
      if (name != row.name) continue;
      costs.*row.field = py::cast<double>(value);
      known = true;
    }
    if (!known) throw py::value_error("npu_lp.twin: there is no cost \"" + name + "\"; costs() lists them.");
  }
  return costs;
}

py::dict counters_dict(const twin::Counters& c) {
  py::dict result;
  result["gm_to_l1"] = c.gm_to_l1;
  result["gm_to_ub"] = c.gm_to_ub;
  result["l1_to_l0"] = c.l1_to_l0;
  result["l1_to_l0_scale"] = c.l1_to_l0_scale;
  result["l1_to_bt"] = c.l1_to_bt;
  result["l0c_to_gm"] = c.l0c_to_gm;
  result["ub_to_gm"] = c.ub_to_gm;
  result["gm_read"] = c.gm_read();
  result["gm_written"] = c.gm_written();
  result["mmads"] = c.mmads;
  result["fractals"] = c.fractals;
  result["macs"] = c.macs;
  result["vector_calls"] = c.vector_calls;
  result["vector_instructions"] = c.vector_instructions;
  result["copies"] = c.copies;
  result["flags"] = c.flags;
  result["barriers"] = c.barriers;
  return result;
}

py::dict simulate(const LaunchRecord& launch, const std::string& sku, const py::dict& costs, const std::string& trace,
                  int trace_cores) {
  const twin::Sku& product = sku_of(sku);
  const twin::CostTable table = costs_of(costs);
  twin::Trace events(trace_cores);
  twin::TimingResult timing;
  {
    const py::gil_scoped_release released;
    timing = twin::simulate(launch, product, table, trace.empty() ? nullptr : &events);
    if (!trace.empty()) events.write(trace, launch.kernel, launch.kind);
  }
  py::dict pipes;
  for (int pipe = 0; pipe < twin::kPipes; ++pipe) {
    if (timing.instructions[pipe] == 0) continue;
    py::dict each;
    each["busy_us"] = timing.busy_us[pipe];
    each["share"] = timing.busy_share[pipe];
    each["instructions"] = timing.instructions[pipe];
    pipes[twin::pipe_name(static_cast<twin::Pipe>(pipe))] = each;
  }
  py::list blocks;
  for (const twin::BlockTiming& block : timing.blocks) {
    py::dict each, busy;
    each["start_us"] = block.start_us;
    each["end_us"] = block.end_us;
    for (int pipe = 0; pipe < twin::kPipes; ++pipe) {
      if (block.pipes[pipe].instructions == 0) continue;
      busy[twin::pipe_name(static_cast<twin::Pipe>(pipe))] = block.pipes[pipe].busy_us;
    }
    each["busy_us"] = busy;
    each["counters"] = counters_dict(block.counters);
    blocks.append(each);
  }
  py::dict result;
  result["kernel"] = timing.kernel;
  result["kind"] = timing.kind == twin::CoreKind::kCube ? "cube" : "vector";
  result["total_us"] = timing.total_us;
  result["launch_us"] = timing.launch_us;
  result["pipes"] = pipes;
  result["counters"] = counters_dict(timing.total);
  result["blocks"] = blocks;
  result["l2_hit"] = timing.l2_hit;
  result["hbm_read"] = timing.hbm_read;
  result["hbm_written"] = timing.hbm_written;
  result["bound_by"] = timing.bound_by();
  return result;
}

py::list skus() {
  py::list result;
  for (const twin::Sku& sku : twin::skus()) {
    py::dict each;
    each["name"] = sku.name;
    each["cube_cores"] = sku.cube_cores;
    each["vector_cores"] = sku.vector_cores;
    each["clock_ghz"] = sku.clock_ghz;
    each["hbm_tb_s"] = sku.hbm_rate * sku.cube_cores * sku.clock_ghz * 1e-3;
    each["l2_mib"] = sku.l2_mib;
    result.append(each);
  }
  return result;
}

py::list costs() {
  const twin::CostTable table;
  py::list result;
  for (const twin::CostRow& row : twin::cost_rows()) {
    py::dict each;
    each["name"] = row.name;
    each["value"] = table.*row.field;
    each["unit"] = row.unit;
    each["range"] = row.range;
    each["tag"] = row.tag;
    each["source"] = row.source;
    result.append(each);
  }
  return result;
}

Format format_of(const std::string& name) {
  for (const FormatInfo& each : kFormats) {
    if (each.on_npu && name == each.name) return each.format;
  }
  throw py::value_error("npu_lp.twin: format=\"" + name + "\" is unknown. Pass e4m3, e5m2, e2m1, e1m2 or hif8.");
}

ascend::MatmulOut out_of(const std::string& name) {
  if (name == "bf16") return ascend::MatmulOut::kBFloat16;
  if (name == "fp16") return ascend::MatmulOut::kFloat16;
  if (name == "fp32") return ascend::MatmulOut::kFloat32;
  throw py::value_error("npu_lp.twin: out=\"" + name + "\" is unknown. Pass bf16, fp16 or fp32.");
}

ascend::MatmulMatrix matrix(bool k_leading, int64_t rows, int64_t k, bool packed) {
  ascend::MatmulMatrix result;
  const int64_t pairs = (k + 63) / 64;
  result.k_leading = result.scale_k_leading = k_leading;
  result.packed_along_k = !packed || !k_leading;
  result.pitch = k_leading ? rows : k;
  result.scale_pitch = k_leading ? rows : pairs;
  result.batch_stride = rows * k;
  result.scale_batch_stride = rows * pairs;
  return result;
}

// Far apart, aligned, and nothing behind them.
const void* fake_address(int tensor) {
  return reinterpret_cast<const void*>((uint64_t{1} << 44) * (static_cast<uint64_t>(tensor) + 1));
}

// What a launch of this shape records. transpose: "NT" is A [m, k] and B [n, k], whose scales have the pairs of K last.
std::pair<std::shared_ptr<LaunchRecord>, py::dict> matmul_record(
    int64_t m, int64_t n, int64_t k, const std::string& a_format, const std::string& b_format,
    const std::string& transpose, const std::string& out, bool bias, bool accumulate, const std::string& split,
    const std::vector<int64_t>& offsets, int cores, const py::dict& tiling) {
  if (transpose.size() != 2 || transpose.find_first_not_of("NT") != std::string::npos) {
    throw py::value_error("npu_lp.twin: layout=\"" + transpose + "\" is unknown. Pass NN, NT, TN or TT.");
  }
  MatmulProblem problem;
  problem.a_format = format_of(a_format);
  problem.b_format = format_of(b_format);
  const bool hif8 = problem.a_format == Format::kHiF8, packed = info(problem.a_format).bits == 4;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.a = matrix(transpose[0] == 'T', m, k, packed);
  problem.b = matrix(transpose[1] == 'N', n, k, packed);
  problem.out = out_of(out);
  problem.has_bias = bias;
  problem.accumulate = accumulate;
  problem.scale_out = hif8;
  problem.groups = static_cast<int64_t>(offsets.size());
  if (split == "m") problem.split = ascend::MatmulSplit::kM;
  if (split == "k") problem.split = ascend::MatmulSplit::kK;
  if (split != "m") problem.b.batch_stride = problem.b.scale_batch_stride = 0;
  problem.a.batch_stride = problem.a.scale_batch_stride = 0;
  MatmulTilingChoice choice;
  const std::pair<const char*, uint32_t MatmulTilingChoice::*> fields[] = {
      {"base_m", &MatmulTilingChoice::base_m},
      {"base_n", &MatmulTilingChoice::base_n},
      {"base_k", &MatmulTilingChoice::base_k},
      {"step_k", &MatmulTilingChoice::step_k},
      {"scale_factor", &MatmulTilingChoice::scale_factor},
      {"stages", &MatmulTilingChoice::stages}};
  for (const auto& [key, value] : tiling) {
    bool known = false;
    for (const auto& [name, field] : fields) {
      if (py::cast<std::string>(key) != name) continue;
      choice.*field = py::cast<uint32_t>(value);
      known = true;
    }
    if (!known) {
      throw py::value_error("npu_lp.twin: tiling has no \"" + py::cast<std::string>(key) +
                            "\". Pass base_m, base_n, base_k, step_k, scale_factor or stages.");
    }
  }
  const MatmulTiling made = ascend::make_matmul_tiling(problem, cores, tiling.empty() ? nullptr : &choice);

  // HiF8's scales and the groups' ends are read by the scalar unit, so they are real.
  const std::vector<float> ones(std::max<size_t>(1, offsets.size()), 1.0f);
  auto record = std::make_shared<LaunchRecord>();
  ascend::TwinLaunch launch;
  launch.options.mode = twin::Mode::kTimingOnly;
  for (int tensor = 0; tensor < 6; ++tensor) launch.gm.push_back({fake_address(tensor), uint64_t{1} << 43});
  launch.gm.push_back({ones.data(), ones.size() * sizeof(float)});
  if (!offsets.empty()) launch.gm.push_back({offsets.data(), offsets.size() * sizeof(int64_t)});
  launch.sink = [&](LaunchRecord&& done) { *record = std::move(done); };
  {
    const py::gil_scoped_release released;
    const void *a = fake_address(0), *b = fake_address(1), *to = fake_address(5);
    const void *a_scale = hif8 ? ones.data() : fake_address(2), *b_scale = hif8 ? ones.data() : fake_address(3);
    void* result = const_cast<void*>(to);
    if (hif8 && offsets.empty()) {
      ascend::launch_hif8_matmul(&launch, made, a, b, a_scale, b_scale, result);
    } else if (hif8) {
      ascend::launch_hif8_grouped_matmul(&launch, made, a, b, a_scale, b_scale, offsets.data(), result);
    } else if (offsets.empty()) {
      ascend::launch_mx_matmul(&launch, made, problem.a_format, problem.b_format, a, b, a_scale, b_scale,
                               bias ? fake_address(4) : nullptr, result);
    } else {
      ascend::launch_mx_grouped_matmul(&launch, made, problem.a_format, problem.b_format, a, b, a_scale, b_scale,
                                       offsets.data(), result);
    }
  }
  py::dict used;
  used["base_m"] = made.a.base;
  used["base_n"] = made.b.base;
  used["base_k"] = made.base_k;
  used["step_k"] = made.step_k;
  used["scale_factor"] = made.scale_factor;
  used["stages"] = made.stages;
  used["l0c_slots"] = made.l0c_slots;
  used["blocks"] = made.blocks;
  return {record, used};
}

}  // namespace

void add_timing(py::module_& m) {
  m.def("simulate", &simulate, py::arg("record"), py::kw_only(), py::arg("sku") = twin::default_sku().name,
        py::arg("costs") = py::dict(), py::arg("trace") = "", py::arg("trace_cores") = 2);
  m.def("skus", &skus);
  m.def("costs", &costs);
  m.def("matmul_record", &matmul_record, py::kw_only(), py::arg("m"), py::arg("n"), py::arg("k"), py::arg("a_format"),
        py::arg("b_format"), py::arg("layout") = "NT", py::arg("out") = "bf16", py::arg("bias") = false,
        py::arg("accumulate") = false, py::arg("split") = "", py::arg("offsets") = std::vector<int64_t>(),
        py::arg("cores") = 32, py::arg("tiling") = py::dict());
}

}  // namespace npu_lp
