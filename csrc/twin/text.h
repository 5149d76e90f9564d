// Messages of reports: text("rows ", n, " of ", total).
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

#include "twin/record.h"

namespace npu_lp::twin {

struct Hex {
  uint64_t value;
};
inline std::ostream& operator<<(std::ostream& out, Hex hex) {
  return out << "0x" << std::hex << hex.value << std::dec;
}

// A place as reports name it: the file without its folders.
inline std::ostream& operator<<(std::ostream& out, const Loc& loc) {
  const std::string path = loc.file;
  return out << path.substr(path.rfind('/') + 1) << ":" << loc.line;
}

template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace npu_lp::twin
