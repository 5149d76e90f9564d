// Memories of a core: their sizes, reuse between launches, bounds, and which bytes were ever written.
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "twin/state.h"
#include "twin/text.h"

namespace npu_lp::twin {
namespace {

constexpr uint8_t kPoisonByte = 0xFF;  // NaN in every format
constexpr size_t kPooled = 64;

struct SpaceInfo {
  const char* name;
  uint32_t capacity;   // what a kernel may use
  uint32_t allocated;  // whole pages
};
constexpr uint32_t kKiB = 1024;
constexpr SpaceInfo kSpaceInfo[kSpaces] = {
    {"GM", 0, 0},
    {"UB", 248 * kKiB, 256 * kKiB},
    {"L1", 512 * kKiB, 512 * kKiB},
    {"L0A", 64 * kKiB, 64 * kKiB},
    {"L0B", 64 * kKiB, 64 * kKiB},
    {"L0A_MX", 4 * kKiB, 4 * kKiB},
    {"L0B_MX", 4 * kKiB, 4 * kKiB},
    {"L0C", 256 * kKiB, 256 * kKiB},
    {"BT", 4 * kKiB, 4 * kKiB},
    {"FB", 16 * kKiB, 16 * kKiB},
};
const SpaceInfo& info_of(Space space) {
  return kSpaceInfo[static_cast<int>(space)];
}

// Leaked on purpose: a thread may return memories while the process ends.
struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Memories>> idle;
};
Pool& pool() {
  static Pool* pool = new Pool;
  return *pool;
}

template <typename T>
T* allocate(size_t bytes) {
  void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

}  // namespace

const char* space_name(Space space) {
  return info_of(space).name;
}

uint32_t capacity(Space space) {
  return info_of(space).capacity;
}

Memories::Memories() {
  for (int i = 0; i < kSpaces; ++i) {
    const size_t size = kSpaceInfo[i].allocated;
    if (size == 0) continue;
    Area& area = areas_[i];
    area.bytes = allocate<uint8_t>(size);
    area.defined = allocate<uint8_t>(size);
    area.cells = allocate<Cell>(size / kCellBytes * sizeof(Cell));
    area.dirty.assign(size / kPage, true);
    std::memset(static_cast<void*>(area.cells), 0, size / kCellBytes * sizeof(Cell));
  }
  clean();
}

Memories::~Memories() {
  for (Area& area : areas_) {
    std::free(area.bytes);
    std::free(area.defined);
    std::free(area.cells);
  }
}

void Memories::clean() {
  for (int i = 0; i < kSpaces; ++i) {
    Area& area = areas_[i];
    for (size_t page = 0; page < area.dirty.size(); ++page) {
      if (!area.dirty[page]) continue;
      std::memset(area.bytes + page * kPage, kPoisonByte, kPage);
      std::memset(area.defined + page * kPage, 0, kPage);
      area.dirty[page] = false;
    }
    if (next_serial > UINT32_MAX / 2 && area.cells != nullptr) {
      std::memset(static_cast<void*>(area.cells), 0, kSpaceInfo[i].allocated / kCellBytes * sizeof(Cell));
    }
  }
  if (next_serial > UINT32_MAX / 2) next_serial = 1;
}

std::unique_ptr<Memories> Memories::take() {
  {
    const std::lock_guard<std::mutex> lock(pool().mutex);
    if (!pool().idle.empty()) {
      std::unique_ptr<Memories> memories = std::move(pool().idle.back());
      pool().idle.pop_back();
      return memories;
    }
  }
  return std::unique_ptr<Memories>(new Memories);
}

void Memories::give_back(std::unique_ptr<Memories> memories) {
  memories->clean();
  const std::lock_guard<std::mutex> lock(pool().mutex);
  if (pool().idle.size() < kPooled) pool().idle.push_back(std::move(memories));
}

uint8_t* Core::memory(Space space) {
  return state_->memories->area(space).bytes;
}

uint8_t* Core::defined_map(Space space) {
  return state_->memories->area(space).defined;
}

void Core::check_bounds(const Span& span, Loc loc, const char* what) {
  if (span.len == 0 || span.count == 0) return;
  const uint64_t end = end_of(span);
  if (span.space != Space::kGM) {
    if (span.begin <= end && end <= capacity(span.space)) return;
    fail(Check::kBounds, loc,
         text(what, " touches bytes ", span.begin, " to ", end, " of ", space_name(span.space), ", which has ",
              capacity(span.space)));
  }
  const std::vector<GmRange>& ranges = state_->gm;
  for (size_t i = 0; i < ranges.size(); ++i) {
    // The range of the last access first: most accesses follow one another in a tensor.
    const size_t at = (i + state_->last_range) % ranges.size();
    const uint64_t first = reinterpret_cast<uint64_t>(ranges[at].begin);
    if (span.begin >= first && end <= first + ranges[at].bytes) {
      state_->last_range = at;
      return;
    }
  }
  std::string nearest;
  for (const GmRange& range : ranges) {
    const uint64_t first = reinterpret_cast<uint64_t>(range.begin);
    if (span.begin >= first && span.begin <= first + range.bytes) {
      nearest = text("; it starts ", span.begin - first, " bytes into a tensor of ", range.bytes);
    }
  }
  fail(Check::kBounds, loc,
       text(what, " touches ", end - span.begin, " bytes of GM that are not inside one of the ", ranges.size(),
            " tensors of this launch", nearest));
}

void Core::check_defined(const Span& span, Loc loc, const char* what) {
  const uint8_t* map = defined_map(span.space);
  for (uint32_t i = 0; i < span.count; ++i) {
    const uint64_t begin = span.begin + i * span.pitch;
    const void* hole = std::memchr(map + begin, 0, span.len);
    if (hole == nullptr) continue;
    const uint64_t at = static_cast<uint64_t>(static_cast<const uint8_t*>(hole) - map);
    fail(Check::kPoison, loc,
         text(what, " reads byte ", at, " of ", space_name(span.space), " (byte ", at - begin, " of row ", i,
              "), which nobody wrote"));
  }
}

void Core::define(const Span& span, bool defined) {
  if (span.space == Space::kGM || span.len == 0) return;
  uint8_t* map = defined_map(span.space);
  for (uint32_t i = 0; i < span.count; ++i) {
    const uint64_t begin = span.begin + i * span.pitch;
    std::memset(map + begin, defined ? 1 : 0, span.len);
  }
  state_->note_touched(span);
}

void Core::State::note_touched(const Span& span) {
  if (span.len == 0 || span.count == 0) return;
  if (span.pitch <= kPage) {
    memories->mark_dirty(span.space, span.begin, end_of(span));
    return;
  }
  for (uint32_t i = 0; i < span.count; ++i) {
    const uint64_t begin = span.begin + i * span.pitch;
    memories->mark_dirty(span.space, begin, begin + span.len);
  }
}

void Core::expose(const void*, uint64_t begin, uint64_t end) {
  std::vector<std::pair<uint64_t, uint64_t>>& known = state_->exposed;
  for (const auto& tensor : known) {
    if (tensor.first == begin && tensor.second == end) return;
  }
  known.emplace_back(begin, end);
}

bool Core::exposed(const void* pointer, uint64_t* begin, uint64_t* end) const {
  const uint8_t* base = state_->memories->area(Space::kUB).bytes;
  const uint64_t at = static_cast<uint64_t>(static_cast<const uint8_t*>(pointer) - base);
  bool found = false;
  for (const auto& tensor : state_->exposed) {
    if (at < tensor.first || at >= tensor.second) continue;
    // Of nested tensors (a slice of a tensor) the outermost counts.
    *begin = found ? std::min(*begin, tensor.first) : tensor.first;
    *end = found ? std::max(*end, tensor.second) : tensor.second;
    found = true;
  }
  return found;
}

}  // namespace npu_lp::twin
