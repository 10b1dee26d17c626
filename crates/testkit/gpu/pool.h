// The memory of the GPU: one file without a name, that every process of an evaluation has open.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pool {
constexpr size_t PAGE = 4096;

// Opens the memory of this GPU: from the process that made it, or makes it. A worker's root shows the folder of this
// library read-only, where a socket can still be connected to; afterwards it can open nothing any more.
bool open();
// Bytes of the GPU; what a process took is free again when it ends.
constexpr size_t MEMORY = 8ull << 30;
size_t free_bytes();
// Bytes of it that nobody else has; they are zero. 0 if there are not as many.
uint64_t take(size_t bytes);
void give_back(uint64_t offset, size_t bytes);
// Maps them with nothing beside them; null if that is refused.
void *map(uint64_t offset, size_t bytes);
} // namespace pool
