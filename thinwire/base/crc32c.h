// CRC-32C (Castagnoli, polynomial 0x1edc6f41 reflected; RFC 3720), the checksum of stored data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace thinwire {

// Of `bytes`, or of what `crc` covers followed by `bytes`.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

// The same without the processor's instruction, for tests.
uint32_t Crc32cPortable(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace thinwire
