// How transfers that run at the same time share L2 and HBM. Each transfer has a rate it would reach alone (its port,
// its rows, its window of requests); L2 is shared by all bytes, HBM by the bytes that miss or are written back.
// Whenever a transfer starts or ends, all rates are set anew, in two steps: HBM is divided so that none gets more of it
// than it asks and the rest get equal parts, then L2 in the same way. Between two such moments rates are constant
// (processor sharing, no time slices).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace npu_lp::twin {

class Bandwidth {
 public:
  // What held transfers back, in transfer-cycles.
  struct Limits {
    double own = 0;  // the rate it has alone
    double l2 = 0;
    double hbm = 0;
  };

  Bandwidth(double l2_rate, double hbm_rate, int slots) : l2_rate_(l2_rate), hbm_rate_(hbm_rate), flows_(slots) {
    active_.reserve(slots);
  }

  // Starts a transfer of `bytes` in a free slot: `cap` bytes a cycle alone, `hbm` bytes of HBM traffic for each byte.
  // Transfers with the same `port` together reach at most `port_rate`.
  void start(int slot, double bytes, double cap, double hbm, int port, double port_rate) {
    flows_[slot] = {bytes, cap, hbm, 0, port, port_rate, kOwn};
    active_.push_back(slot);
    changed_ = true;
  }

  // The moment the first transfer ends, if nothing else starts before.
  double next_end() {
    if (changed_) share();
    double next = std::numeric_limits<double>::infinity();
    for (int slot : active_) next = std::min(next, now_ + flows_[slot].left / flows_[slot].rate);
    return next;
  }

  // Moves all transfers on to `time`, and appends the slots of those that are then complete.
  void advance(double time, std::vector<int>& ended) {
    if (changed_) share();
    const double span = time - now_;
    now_ = time;
    for (size_t i = 0; i < active_.size();) {
      Flow& flow = flows_[active_[i]];
      flow.left -= flow.rate * span;
      Limits& limits = limits_[active_[i] % 2];
      (flow.limit == kOwn ? limits.own : flow.limit == kL2 ? limits.l2 : limits.hbm) += span;
      if (flow.left <= 1e-6 * flow.rate) {
        ended.push_back(active_[i]);
        active_[i] = active_.back();
        active_.pop_back();
        changed_ = true;
      } else {
        ++i;
      }
    }
  }

  const Limits& limits(bool write) const { return limits_[write]; }

 private:
  enum Limit : uint8_t { kOwn, kL2, kHbm };
  struct Flow {
    double left = 0, cap = 1, hbm = 0, rate = 0;
    int port = 0;
    double port_rate = 0;
    Limit limit = kOwn;
  };

  // The greatest part that each may have of `total`, when those that ask for less leave the rest to the others.
  static double fair_part(std::vector<double>& demands, double total) {
    std::sort(demands.begin(), demands.end());
    size_t left = demands.size();
    for (double demand : demands) {
      if (demand * left >= total) return total / left;
      total -= demand;
      --left;
    }
    return std::numeric_limits<double>::infinity();
  }

  void share() {
    changed_ = false;
    double l2 = 0, hbm = 0;
    for (int slot : active_) {
      Flow& flow = flows_[slot];
      flow.rate = flow.cap;
      flow.limit = kOwn;
    }
    share_ports();
    for (int slot : active_) hbm += flows_[slot].rate * flows_[slot].hbm;
    if (hbm > hbm_rate_) {
      demands_.clear();
      for (int slot : active_) demands_.push_back(flows_[slot].rate * flows_[slot].hbm);
      const double part = fair_part(demands_, hbm_rate_);
      for (int slot : active_) cut(flows_[slot], flows_[slot].hbm > 0 ? part / flows_[slot].hbm : 1e9, kHbm);
    }
    for (int slot : active_) l2 += flows_[slot].rate;
    if (l2 > l2_rate_) {
      demands_.clear();
      for (int slot : active_) demands_.push_back(flows_[slot].rate);
      const double part = fair_part(demands_, l2_rate_);
      for (int slot : active_) cut(flows_[slot], part, kL2);
    }
  }

  static void cut(Flow& flow, double rate, Limit limit) {
    if (rate < flow.rate) {
      flow.rate = rate;
      flow.limit = limit;
    }
  }

  // Ports have one or two users (the two vector cores of an AI core).
  void share_ports() {
    for (size_t i = 0; i < active_.size(); ++i) {
      Flow& a = flows_[active_[i]];
      if (static_cast<size_t>(a.port) >= last_user_.size()) last_user_.resize(a.port + 1, -1);
      int other = last_user_[a.port];
      if (other >= 0) {
        Flow& b = flows_[other];
        const double excess = a.rate + b.rate - a.port_rate;
        if (excess > 0) {
          const double low = std::min(a.rate, b.rate), part = std::max(a.port_rate / 2, a.port_rate - low);
          a.rate = std::min(a.rate, part);
          b.rate = std::min(b.rate, part);
        }
      }
      last_user_[a.port] = active_[i];
    }
    for (int slot : active_) last_user_[flows_[slot].port] = -1;
  }

  double l2_rate_, hbm_rate_;
  double now_ = 0;
  bool changed_ = false;
  std::vector<Flow> flows_;
  std::vector<int> active_;
  std::vector<int> last_user_;
  std::vector<double> demands_;
  Limits limits_[2];
};

}  // namespace npu_lp::twin
