// What the drivers of the fault-injection suite share. Each runs its cases in turn, up to the first in which the twin
// reports something or a result is wrong, and says so in one line:
//
//     case|check, or "wrong values"|file:line|message
//
// With a seed as argument it runs in shuffled order.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "twin/machine.h"

namespace mutants {

struct Case {
  const char* name;
  std::function<std::string(const npu_lp::twin::Options&)> run;  // returns what is wrong with the results
};

inline std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

inline int run_all(const std::vector<Case>& cases, int argc, char** argv) {
  npu_lp::twin::Options options;
  options.record = false;
  options.threads = 1;  // the report of the first block, whatever the machine is doing
  if (argc > 1) {
    options.mode = npu_lp::twin::Mode::kShuffled;
    options.seed = std::strtoull(argv[1], nullptr, 10);
  }
  for (const Case& one : cases) {
    try {
      const std::string wrong = one.run(options);
      if (wrong.empty()) continue;
      std::printf("%s|wrong values||%s\n", one.name, wrong.c_str());
    } catch (const npu_lp::twin::TwinError& error) {
      const npu_lp::twin::Report& report = error.reports().front();
      std::printf("%s|%s|%s:%d|%s\n", one.name, check_name(report.check), base_name(report.loc.file).c_str(),
                  report.loc.line, report.message.c_str());
    } catch (const std::exception& error) {
      std::printf("%s|refused||%s\n", one.name, error.what());
    }
    return 1;
  }
  return 0;
}

}  // namespace mutants
