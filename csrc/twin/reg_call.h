// How vector functions are started: asc_vf_call<f>(arguments...), and __VEC_SCOPE__ { } for a block in place. Either is
// one instruction of PIPE_V.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <type_traits>

#include "twin/reg_run.h"

namespace npu_lp::twin {

Record vector_record(Loc loc);

template <auto f, typename F = decltype(f)>
struct VectorCall;

template <auto f, typename... P>
struct VectorCall<f, void (*)(P...)> {
  static_assert(((std::is_pointer_v<P> || std::is_arithmetic_v<P> || std::is_enum_v<P>) && ...),
                "a vector function takes pointers into UB and scalars, no references and no structs");

  void operator()(P... arguments, Loc loc = Loc::here()) const {
    Core& core = this_core();
    const Record record = vector_record(loc);
    if (core.begin_instruction(record)) {
      core.last_record().vector = run(core, true, arguments...);
      core.end_instruction();
    } else if (core.queues()) {
      core.enqueue(record, [arguments...](Core& then) { then.last_record().vector = run(then, true, arguments...); });
    } else {
      core.last_record().vector = counted(core, arguments...);
    }
  }

 private:
  static VectorCounts run(Core& core, bool compute, P... arguments) {
    VectorRun run(core, compute, false);
    (allow(run, arguments), ...);
    f(arguments...);
    run.finish();
    return run.counts();
  }
  template <typename T>
  static void allow(VectorRun& run, T argument) {
    if constexpr (std::is_pointer_v<T>) run.allow(argument);
  }

  // A vector function's control flow depends on its scalars only, so that one run tells the counts of all alike.
  static VectorCounts counted(Core& core, P... arguments) {
    using Key = std::array<uint64_t, sizeof...(P) + 1>;
    // Not thread-local: one for each function would not fit into what a library loaded at run time gets of it.
    static std::mutex mutex;
    static std::map<Key, VectorCounts> known;
    const Key key{key_of(arguments)..., 0};
    {
      const std::lock_guard<std::mutex> lock(mutex);
      const auto found = known.find(key);
      if (found != known.end()) return found->second;
    }
    const VectorCounts counts = run(core, false, arguments...);
    const std::lock_guard<std::mutex> lock(mutex);
    return known[key] = counts;
  }
  template <typename T>
  static uint64_t key_of(T argument) {
    if constexpr (std::is_pointer_v<T>) {
      return argument != nullptr;
    } else {
      uint64_t bits = 0;
      std::memcpy(&bits, &argument, sizeof argument);
      return bits;
    }
  }
};

// The block after __VEC_SCOPE__. It cannot be kept for later: in shuffled order all earlier instructions run first.
class VecScope {
 public:
  explicit VecScope(Loc loc = Loc::here());
  ~VecScope() noexcept(false);
  VecScope(const VecScope&) = delete;
  VecScope& operator=(const VecScope&) = delete;

 private:
  static bool begin(Core& core, Loc loc);

  Core& core_;
  bool direct_;
  VectorRun run_;
  int exceptions_;
};

}  // namespace npu_lp::twin

namespace AscendC {
template <auto f>
constexpr npu_lp::twin::VectorCall<f> asc_vf_call{};
}  // namespace AscendC
using AscendC::asc_vf_call;

#ifndef __VEC_SCOPE__
#define __VEC_SCOPE__ if (::npu_lp::twin::VecScope vec_scope_in_the_twin{}; true)
#endif
