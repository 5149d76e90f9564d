// Accesses to GM that overlap: between blocks, which nothing orders, and within a block, where flags must. Checked once
// a launch is over, byte for byte, since tensors in GM have rows of any length.
#include <algorithm>
#include <set>
#include <tuple>

#include "twin/state.h"
#include "twin/text.h"

namespace npu_lp::twin {
namespace {

constexpr size_t kMaxReports = 20;

struct Interval {
  uint64_t begin, end;
  uint32_t access;
};

// The parts of GM that anyone writes, as few intervals as possible.
std::vector<Interval> written_parts(const std::vector<GmAccess>& accesses) {
  std::vector<Interval> parts;
  for (const GmAccess& access : accesses) {
    if (access.write) parts.push_back({access.span.begin, end_of(access.span), 0});
  }
  std::sort(parts.begin(), parts.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  size_t n = 0;
  for (const Interval& part : parts) {
    if (n > 0 && part.begin <= parts[n - 1].end) {
      parts[n - 1].end = std::max(parts[n - 1].end, part.end);
    } else {
      parts[n++] = part;
    }
  }
  parts.resize(n);
  return parts;
}

bool touches(const std::vector<Interval>& parts, uint64_t begin, uint64_t end) {
  const auto after = std::lower_bound(parts.begin(), parts.end(), end,
                                      [](const Interval& part, uint64_t value) { return part.begin < value; });
  return after != parts.begin() && (after - 1)->end > begin;
}

// Whether one block's two accesses have an order.
bool ordered(const GmAccess& a, const GmAccess& b) {
  if (a.serial == b.serial) return true;
  const GmAccess& first = a.serial < b.serial ? a : b;
  const GmAccess& second = a.serial < b.serial ? b : a;
  if (first.pipe == second.pipe && completes_in_order(first.pipe)) return true;
  return first.index <= second.known[static_cast<size_t>(first.pipe)];
}

bool conflict(const GmAccess& a, const GmAccess& b) {
  if (!a.write && !b.write) return false;
  if (a.atomic && b.atomic) return false;
  return a.block != b.block || !ordered(a, b);
}

const char* verb(const GmAccess& access) {
  return access.atomic ? "adds to" : access.write ? "writes" : "reads";
}

Report report(const GmAccess& a, const GmAccess& b, uint64_t bytes) {
  if (a.block != b.block) {
    const GmAccess& one = a.write ? a : b;
    const GmAccess& other = a.write ? b : a;
    return {Check::kCoreRace, one.block, one.loc,
            text("this block ", verb(one), " ", bytes, " bytes of GM that block ", other.block, " ", verb(other), " (",
                 other.loc, "); blocks of a launch have no order, so give each its own part")};
  }
  const GmAccess& first = a.serial < b.serial ? a : b;
  const GmAccess& second = a.serial < b.serial ? b : a;
  return {Check::kRace, second.block, second.loc,
          text(pipe_name(second.pipe), " ", verb(second), " ", bytes, " bytes of GM while ", pipe_name(first.pipe),
               first.write ? " may still write them (" : " may still read them (", first.loc, "); ",
               order_between(first.pipe, second.pipe))};
}

}  // namespace

std::vector<Report> find_gm_races(std::vector<GmAccess> accesses) {
  const std::vector<Interval> parts = written_parts(accesses);
  std::vector<Interval> intervals;
  if (parts.empty()) return {};
  for (uint32_t i = 0; i < accesses.size(); ++i) {
    const Span& span = accesses[i].span;
    if (!touches(parts, span.begin, end_of(span))) continue;
    if (span.count == 1 || span.pitch <= span.len) {
      intervals.push_back({span.begin, end_of(span), i});
      continue;
    }
    for (uint32_t row = 0; row < span.count; ++row) {
      const uint64_t begin = span.begin + row * span.pitch;
      intervals.push_back({begin, begin + span.len, i});
    }
  }
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });

  std::vector<Report> reports;
  std::set<std::tuple<const char*, int, const char*, int, bool>> said;  // one report for a pair of lines
  std::vector<Interval> open;  // intervals that reach beyond the current one's begin
  for (const Interval& now : intervals) {
    std::erase_if(open, [&](const Interval& other) { return other.end <= now.begin; });
    for (const Interval& other : open) {
      const GmAccess& a = accesses[other.access];
      const GmAccess& b = accesses[now.access];
      if (!conflict(a, b)) continue;
      if (!said.emplace(a.loc.file, a.loc.line, b.loc.file, b.loc.line, a.block == b.block).second) continue;
      reports.push_back(report(a, b, std::min(now.end, other.end) - now.begin));
      if (reports.size() >= kMaxReports) return reports;
    }
    open.push_back(now);
  }
  return reports;
}

}  // namespace npu_lp::twin
