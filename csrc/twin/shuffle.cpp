// Shuffled order: instructions wait in their pipes' queues, and a seeded scheduler runs them in some order that the
// device could have chosen. In the copy pipes an instruction may overtake earlier ones up to a barrier or a flag.
#include <algorithm>
#include <utility>

#include "twin/state.h"
#include "twin/text.h"

namespace npu_lp::twin {

uint64_t Core::State::next_random() {
  uint64_t z = (random += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

bool Core::queues() const {
  return state_->shuffled();
}

void Core::enqueue(const Record& record, std::function<void(Core&)> execute) {
  State& s = *state_;
  State::Item item;
  item.run = std::move(execute);
  item.record = s.current_record;
  item.control = control;
  item.atomic = s.atomic;
  item.loc = record.loc;
  s.queues[static_cast<int>(record.pipe)].push_back(std::move(item));
}

// Runs one item that can run; false: none can.
bool Core::State::run_one(Core& core) {
  int ready[kPipes];
  int n = 0;
  for (int p = 0; p < kPipes; ++p) {
    if (queues[p].empty()) continue;
    const Item& head = queues[p].front();
    if (head.kind == Item::kWait && !done[head.sync]) continue;
    ready[n++] = p;
  }
  if (n == 0) return false;
  int p = ready[next_random() % n];
  // Every other seed gives pipes a fixed order of precedence: extremes that a fair choice seldom reaches.
  if (style != 0) p = *std::max_element(ready, ready + n, [&](int a, int b) { return priority[a] < priority[b]; });
  std::deque<Item>& queue = queues[p];
  size_t choice = 0;
  if (!completes_in_order(static_cast<Pipe>(p)) && queue.front().kind == Item::kRun) {
    size_t run = 1;
    while (run < queue.size() && queue[run].kind == Item::kRun) ++run;
    choice = next_random() % run;
  }
  Item item = std::move(queue[choice]);
  queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(choice));
  if (item.kind == Item::kSet) done[item.sync] = true;
  if (item.kind != Item::kRun) return true;
  std::swap(core.control, item.control);
  std::swap(atomic, item.atomic);
  std::swap(current_record, item.record);
  item.run(core);
  std::swap(core.control, item.control);
  std::swap(atomic, item.atomic);
  std::swap(current_record, item.record);
  return true;
}

void Core::State::deadlock(Core& core) {
  std::string waiting;
  Loc loc;
  for (int p = 0; p < kPipes; ++p) {
    if (queues[p].empty()) continue;
    loc = queues[p].front().loc;
    waiting += text(waiting.empty() ? "" : ", ", pipe_name(static_cast<Pipe>(p)), " at ", loc);
  }
  core.fail(Check::kFlag, loc, "deadlock: every pipe with work left waits for another: " + waiting);
}

void Core::State::run_until(Core& core, uint32_t sync) {
  while (!done[sync]) {
    if (!run_one(core)) deadlock(core);
  }
}

void Core::State::run_all(Core& core) {
  while (run_one(core)) {
  }
  for (const std::deque<Item>& queue : queues) {
    if (!queue.empty()) deadlock(core);
  }
}

void Core::drain() {
  if (state_->shuffled()) state_->run_all(*this);
}

}  // namespace npu_lp::twin
