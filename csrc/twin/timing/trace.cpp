#include "twin/timing/trace.h"

#include <unistd.h>

#include <cstdio>
#include <set>
#include <stdexcept>
#include <utility>

namespace npu_lp::twin {
namespace {

const char* op_name(Op op) {
  switch (op) {
    case Op::kCopyIn:
      return "MOV_GM_TO_LOCAL";
    case Op::kNd2Nz:
      return "MOV_GM_TO_L1_ND2NZ";
    case Op::kDn2Nz:
      return "MOV_GM_TO_L1_DN2NZ";
    case Op::kFill:
      return "FILL_L1";
    case Op::kLoad:
      return "LOAD_2Dv2";
    case Op::kLoadBias:
      return "LOAD_BIAS";
    case Op::kMmad:
      return "MMAD";
    case Op::kFixpipe:
      return "FIX_L0C_TO_DST";
    case Op::kCopyOut:
      return "MOV_UB_TO_GM";
    case Op::kVector:
      return "VF";
    case Op::kSet:
      return "SET_FLAG";
    case Op::kWait:
      return "WAIT_FLAG";
    case Op::kBarrier:
      return "BAR";
    case Op::kScalar:
      return "SCALAR";
  }
  return "?";
}

// File names and kernel names need no more than this.
std::string escape(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out;
}

std::string details(const Record& record) {
  char text[256];
  switch (record.op) {
    case Op::kMmad:
      std::snprintf(text, sizeof text, "\"m\":%d,\"n\":%d,\"k\":%d,\"unit_flag\":%d", record.m, record.n, record.k,
                    record.unit_flag);
      break;
    case Op::kLoad:
      std::snprintf(text, sizeof text, "\"bytes\":%u,\"scale_bytes\":%u", record.bytes, record.scale_bytes);
      break;
    case Op::kVector:
      std::snprintf(text, sizeof text, "\"instructions\":%u,\"loads\":%u,\"stores\":%u", record.vector.issued,
                    record.vector.loads, record.vector.stores);
      break;
    case Op::kSet:
    case Op::kWait:
      std::snprintf(text, sizeof text, "\"sync\":%u", record.sync);
      break;
    default:
      std::snprintf(text, sizeof text, "\"rows\":%u,\"row_bytes\":%u", record.rows, record.row_bytes);
  }
  std::string file = record.loc.file;
  return std::string(text) + ",\"at\":\"" + escape(file.substr(file.find_last_of('/') + 1)) + ":" +
         std::to_string(record.loc.line) + "\"";
}

}  // namespace

void Trace::write(const std::string& path, const std::string& kernel, CoreKind kind) const {
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write the trace to " + temporary);
  const char* core_name = kind == CoreKind::kCube ? "cubecore" : "veccore";
  std::fprintf(file, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"kernel\":\"%s\"},\"traceEvents\":[\n",
               escape(kernel).c_str());
  std::set<std::pair<int, int>> lanes;
  for (const Event& event : events_) lanes.insert({event.core, static_cast<int>(event.record.pipe)});
  int named = -1;
  for (auto [core, pipe] : lanes) {
    if (core != named) {
      std::fprintf(file, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"core%d.%s0\"}},\n",
                   core, core, core_name);
    }
    named = core;
    std::fprintf(file, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}},\n",
                 core, pipe, pipe_name(static_cast<Pipe>(pipe)));
  }
  for (const Event& event : events_) {
    std::fprintf(file, "{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.4f,\"dur\":%.4f,\"args\":{%s}},\n",
                 op_name(event.record.op), event.core, static_cast<int>(event.record.pipe), event.start,
                 event.end - event.start, details(event.record).c_str());
  }
  std::fprintf(file, "{\"ph\":\"M\",\"name\":\"end\",\"pid\":0}\n]}\n");
  const bool failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    throw std::runtime_error("cannot write the trace to " + path);
  }
}

}  // namespace npu_lp::twin
