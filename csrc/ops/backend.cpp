#include "ops/backend.h"

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ops/mx_linear.h"

namespace npu_lp {

namespace {

struct Announced {
  std::mutex mutex;
  std::vector<const Backend*> backends;
  std::atomic<const Backend*> selected = nullptr;
};

Announced& announced() {  // a function's static: libraries announce while they are initialized
  static Announced instance;
  return instance;
}

// What the dispatcher calls: the same op of the selected backend.
template <auto Member>
struct Forward;

template <typename Result, typename... Args, Result (*Backend::*Member)(Args...)>
struct Forward<Member> {
  static Result call(Args... args) { return (selected_backend().*Member)(std::forward<Args>(args)...); }
};

// Likewise for an op that the backend may lack.
template <auto Member, auto Composed>
struct ForwardFused;

template <typename Result, typename... Args, Result (*Backend::*Member)(Args...), auto Composed>
struct ForwardFused<Member, Composed> {
  static Result call(Args... args) {
    const auto fused = selected_backend().*Member;
    return fused != nullptr ? fused(std::forward<Args>(args)...) : Composed(std::forward<Args>(args)...);
  }
};

}  // namespace

void announce_backend(const Backend& backend) {
  Announced& known = announced();
  const std::lock_guard<std::mutex> lock(known.mutex);
  known.backends.push_back(&backend);
  if (known.selected == nullptr) known.selected = &backend;  // the first is the CPU's, of this library
}

void select_backend(std::string_view name) {
  Announced& known = announced();
  const std::lock_guard<std::mutex> lock(known.mutex);
  std::ostringstream names;
  for (const Backend* backend : known.backends) {
    if (name == backend->name) {
      known.selected = backend;
      return;
    }
    names << (names.tellp() > 0 ? ", " : "") << '"' << backend->name << '"';
  }
  TORCH_CHECK_VALUE(false, "npu_lp: the backend \"", name, "\" is not loaded. Loaded are ", names.str(), ".");
}

const Backend& selected_backend() {
  return *announced().selected.load(std::memory_order_acquire);
}

TORCH_LIBRARY_IMPL(npu_lp, CPU, m) {
#define NPU_LP_REGISTER(op) m.impl(#op, Forward<&Backend::op>::call);
  NPU_LP_OPS(NPU_LP_REGISTER)
#undef NPU_LP_REGISTER
#define NPU_LP_REGISTER(op) m.impl(#op, ForwardFused<&Backend::op, composed_##op>::call);
  NPU_LP_FUSED_OPS(NPU_LP_REGISTER)
#undef NPU_LP_REGISTER
}

TORCH_LIBRARY_IMPL(npu_lp, CompositeExplicitAutograd, m) {  // devices whose backend has none
#define NPU_LP_REGISTER(op) m.impl(#op, composed_##op);
  NPU_LP_FUSED_OPS(NPU_LP_REGISTER)
#undef NPU_LP_REGISTER
}

TORCH_LIBRARY_FRAGMENT(npu_lp, m) {
  m.def("_select_backend(str name) -> ()", [](std::string_view name) { select_backend(name); });
  m.def("_selected_backend() -> str", [] { return std::string(selected_backend().name); });
}

}  // namespace npu_lp
