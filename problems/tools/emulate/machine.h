/* What emulated device code and the scheduler that runs it share. Either both are in one library (`emulate.py`), or the
   scheduler is the stand-in driver's and reaches candidates through a pointer. */
#ifndef KS_EMULATE_MACHINE_H
#define KS_EMULATE_MACHINE_H

#include <cstddef>
#include <cstdint>

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace emu {
enum class Wait { None, Warp, Block, Done };
/* Most dynamic shared memory of a block, in bytes: what Hopper has. */
constexpr size_t SHARED_MOST = 227 << 10;

struct Thread {
    dim3 index;
    unsigned flat; /* number within its block */
};
struct Warp { uint64_t slot[32][8]; };

struct Machine {
    Thread *thread; /* the one that runs */
    dim3 grid, block, block_index;
    Warp *warps;
    void *dynamic; /* the block's dynamic shared memory, 16-byte aligned */
    void (*pause)(Wait);
    void (*die)(const char *); /* does not return */
};
} // namespace emu

#endif
