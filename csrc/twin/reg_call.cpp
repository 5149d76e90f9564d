#include "twin/reg_call.h"

#include <exception>

namespace npu_lp::twin {

Record vector_record(Loc loc) {
  Record record;
  record.op = Op::kVector;
  record.pipe = Pipe::kV;
  record.loc = loc;
  return record;
}

bool VecScope::begin(Core& core, Loc loc) {
  core.drain();
  return core.begin_instruction(vector_record(loc));
}

VecScope::VecScope(Loc loc)
    : core_(this_core()),
      direct_(begin(core_, loc)),
      run_(core_, direct_ || core_.queues(), true),
      exceptions_(std::uncaught_exceptions()) {}

VecScope::~VecScope() noexcept(false) {
  if (std::uncaught_exceptions() > exceptions_) return;
  run_.finish();
  core_.last_record().vector = run_.counts();
  if (direct_) core_.end_instruction();
}

}  // namespace npu_lp::twin
