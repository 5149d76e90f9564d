// The matmul kernels on the twin: random products of every kind, `test_matmul [cases] [seed]`; or with a third argument
// just that case, and what it was.
#include <cstdio>
#include <cstdlib>

#include "matmul_cases.h"
#include "twin/machine.h"

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 100;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const int only = argc > 3 ? std::atoi(argv[3]) : -1;
  int failures = 0;
  for (int i = only < 0 ? 0 : only; i < (only < 0 ? cases : only + 1); ++i) {
    std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(i));
    matmul_cases::Case c = matmul_cases::random_case(random);
    std::string problem;
    try {
      const int64_t wrong = matmul_cases::run(c, random(), problem);
      if (wrong != 0) problem = std::to_string(wrong) + " wrong, " + problem;
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (!problem.empty()) ++failures;
    if (!problem.empty() || only >= 0) std::printf("case %d: %s\n  %s\n", i, describe(c).c_str(), problem.c_str());
  }
  std::printf("%d cases, %d failures\n", cases, failures);
  return failures == 0 ? 0 : 1;
}
