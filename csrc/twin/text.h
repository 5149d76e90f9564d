// Messages of reports: text("rows ", n, " of ", total).
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace npu_lp::twin {

struct Hex {
  uint64_t value;
};
inline std::ostream& operator<<(std::ostream& out, Hex hex) {
  return out << "0x" << std::hex << hex.value << std::dec;
}

template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace npu_lp::twin
