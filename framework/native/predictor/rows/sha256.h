// SHA-256 (FIPS 180-4) of a text, for headers of published tables.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace paddock::rows {

std::array<uint8_t, 32> sha256(std::string_view text);

}  // namespace paddock::rows
