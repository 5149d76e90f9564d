// Which bytes of GM are in L2 at a moment: set-associative, least recently used out first, lines of 512 bytes with a
// valid and a dirty bit for each sector of 128. Writes allocate without a fetch; dirty victims go back to HBM.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace npu_lp::twin {

class L2Cache {
 public:
  struct Access {
    uint64_t hit = 0;         // bytes asked for that were there, or on their way for another core
    uint64_t miss = 0;        // bytes asked for that were not
    uint64_t fetched = 0;     // whole sectors read from HBM for them
    uint64_t pieces = 0;      // contiguous runs of missing sectors
    uint64_t write_back = 0;  // dirty bytes that had to leave
    uint64_t pending = 0;     // of the hits, bytes on their way for another core
    double wait = 0;          // the longest that those take
  };

  L2Cache(uint64_t bytes, int ways)
      : ways_(ways), sets_(bytes / kLine / ways), numbers_(sets_ * ways, ~uint64_t{0}), lines_(sets_ * ways) {}

  // Adds to `result` what a read or write of [address, address + bytes) at time `now` finds. Missing sectors are there
  // from `arrival` on.
  void touch(uint64_t address, uint64_t bytes, bool write, double now, double arrival, Access& result) {
    const uint64_t end = address + bytes;
    bool in_run = false;
    for (uint64_t at = address; at < end;) {
      const uint64_t number = at / kLine;
      const uint64_t stop = std::min(end, (number + 1) * kLine);
      Line& line = find(number, result);
      const int first = static_cast<int>(at % kLine / kSector), last = static_cast<int>((stop - 1) % kLine / kSector);
      const uint8_t wanted = static_cast<uint8_t>(((2u << last) - 1) & ~((1u << first) - 1));
      if (write) {
        result.hit += stop - at;
        line.valid |= wanted;
        line.dirty |= wanted;
      } else if ((line.valid & wanted) == wanted) {
        result.hit += stop - at;
        if (line.arrival > now) {
          result.pending += stop - at;
          result.wait = std::max(result.wait, line.arrival - now);
        }
        in_run = false;
      } else {
        const int absent = __builtin_popcount(wanted & ~line.valid), all = last - first + 1;
        const uint64_t miss = (stop - at) * absent / all;
        result.miss += miss;
        result.hit += stop - at - miss;
        result.fetched += absent * kSector;
        if (!in_run) ++result.pieces;
        in_run = true;
        line.valid |= wanted;
        line.arrival = static_cast<float>(arrival);
      }
      at = stop;
    }
  }

 private:
  static constexpr uint64_t kLine = 512, kSector = 128;
  struct Line {
    uint32_t used = 0;
    float arrival = 0;
    uint8_t valid = 0, dirty = 0;
  };

  Line& find(uint64_t number, Access& result) {
    // Neighbouring lines in different sets, and no set favoured by rows whose pitch is a power of two.
    uint64_t mixed = (number ^ number >> 15) * 0x9E3779B97F4A7C15ull;
    mixed = (mixed ^ mixed >> 31) * 0xD6E8FEB86659FD93ull >> 32;
    const uint64_t first = (mixed * sets_ >> 32) * ways_;
    ++clock_;
    uint64_t oldest = first;
    for (uint64_t way = first; way < first + ways_; ++way) {
      if (numbers_[way] != number) continue;
      lines_[way].used = clock_;
      return lines_[way];
    }
    for (uint64_t way = first + 1; way < first + ways_; ++way) {
      if (lines_[way].used < lines_[oldest].used) oldest = way;
    }
    result.write_back += __builtin_popcount(lines_[oldest].dirty) * kSector;
    numbers_[oldest] = number;
    lines_[oldest] = Line{clock_, 0, 0, 0};
    return lines_[oldest];
  }

  int ways_;
  uint64_t sets_;
  std::vector<uint64_t> numbers_;  // of the lines, apart: a search reads nothing else
  std::vector<Line> lines_;
  uint32_t clock_ = 0;
};

}  // namespace npu_lp::twin
