// What every check here shares: the kernel tables, how the work of a call is cut up and run, and how results are
// compared. A check throws Failure, whose message says what differs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "buffer.h"
#include "cpu/kernels/kernels.h"
#include "source.h"

namespace npu_lp::cpu::test {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The tables that this processor can run, or the one that --isa names.
extern std::vector<const Kernels*> tables;

// What is being computed, for the message of a failure or of a fault.
void describe(const std::string& what);

// Calls of a kernel that together do the whole work, in any order and on any thread. The argument is a
// workspace that no other thread uses.
using Units = std::vector<std::function<void(void*)>>;

// Runs them all: shuffled, on 1, 2, 3 or 7 threads, each called with some rounding mode and flush-to-zero state, which
// FloatEnvironment must hide from the kernels and put back.
void run(Source& from, const Kernels& table, Units units, int64_t workspace_size = 0);

// Cuts [0, count) into ranges at multiples of `step`.
std::vector<std::pair<int64_t, int64_t>> cut(Source& from, int64_t count, int64_t step = 1);

// Throws unless the bytes are equal and the bytes before the buffer are untouched. `element` is the size of what is
// counted in the message.
void expect_equal(const std::string& what, const Buffer& expected, const Buffer& actual, size_t element);

// Values compared with every table, by op and format.
class Tally {
 public:
  void add(const std::string& op, const std::string& format, int64_t values) { values_[op][format] += values; }
  void print_and_clear();  // a line for each op and instruction set

 private:
  std::map<std::string, std::map<std::string, int64_t>> values_;
};

}  // namespace npu_lp::cpu::test
