/* What `emulate.py` puts in place of the lines between `BEGIN PTX` and `END PTX` of a kernel: the instructions that the
   kernels here name in PTX, by their definition in the PTX manual. */
#ifndef KS_EMULATE_WARP_MATRIX_H
#define KS_EMULATE_WARP_MATRIX_H

#include "cuda_bf16.h"

/* cp.async of 16 bytes of which `bytes` are read and the rest zeroed; done at once here. */
static inline void copy_async(void *shared, const void *global, int bytes)
{
    if ((uintptr_t)shared % 16 || (bytes && (uintptr_t)global % 16))
        emu::die("a 16-byte copy at an address that is not a multiple of 16");
    memset(shared, 0, 16);
    memcpy(shared, global, (size_t)bytes);
}
static inline void copy_commit() {}
template <int N>
static inline void copy_wait() {}

/* ldmatrix .x4: lane i names row i % 8 of matrix i / 8. */
template <bool TRANS>
static inline void load_matrices(uint32_t (&out)[4], const void *row)
{
    if ((uintptr_t)row % 16)
        emu::die("a matrix row at an address that is not a multiple of 16");
    const uint16_t *rows[32];
    for (unsigned l = 0; l < 32; l++)
        rows[l] = (const uint16_t *)emu::from_lane((uintptr_t)row, l);
    const unsigned l = emu::lane();
    for (unsigned m = 0; m < 4; m++) {
        uint16_t lo, hi;
        if (TRANS) {
            lo = rows[8 * m + 2 * (l % 4)][l / 4];
            hi = rows[8 * m + 2 * (l % 4) + 1][l / 4];
        } else {
            lo = rows[8 * m + l / 4][2 * (l % 4)];
            hi = rows[8 * m + l / 4][2 * (l % 4) + 1];
        }
        out[m] = (uint32_t)lo | (uint32_t)hi << 16;
    }
}

/* mma.sync m16n8k16, bf16 in, f32 out. */
static inline void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    using emu::warp;
    uint64_t *mine = warp().slot[emu::lane()];
    for (int i = 0; i < 4; i++)
        mine[i] = a[i];
    mine[4] = b[0];
    mine[5] = b[1];
    emu::pause(emu::Wait::Warp);
    const auto half = [](uint64_t w, int h) { return __bfloat162float({(uint16_t)(w >> (16 * h))}); };
    /* a register r of lane l: row l / 4 + 8 * (r % 2), columns 2 * (l % 4) + 8 * (r / 2) and the next;
       b register r: rows 2 * (l % 4) + 8 * r and the next, column l / 4. */
    const auto A = [&](unsigned i, unsigned k) {
        return half(warp().slot[i % 8 * 4 + k % 8 / 2][i / 8 + 2 * (k / 8)], (int)(k % 2));
    };
    const auto B = [&](unsigned k, unsigned j) { return half(warp().slot[j * 4 + k % 8 / 2][4 + k / 8], (int)(k % 2)); };
    for (unsigned r = 0; r < 4; r++) {
        const unsigned i = emu::lane() / 4 + 8 * (r / 2), j = emu::lane() % 4 * 2 + r % 2;
        for (unsigned k = 0; k < 16; k++)
            c[r] += A(i, k) * B(k, j);
    }
    emu::pause(emu::Wait::Warp);
}

#endif
