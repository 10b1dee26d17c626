/* FP8 E4M3 for the emulation: its values. */
#ifndef KS_EMULATE_CUDA_FP8_H
#define KS_EMULATE_CUDA_FP8_H

#include "cuda_runtime.h"

struct __nv_fp8_e4m3 {
    uint8_t __x;
    explicit operator float() const
    {
        const unsigned exponent = __x >> 3 & 15, mantissa = __x & 7;
        const float magnitude = (__x & 127) == 127 ? NAN
            : exponent ? std::ldexp((float)(mantissa | 8), (int)exponent - 10) : std::ldexp((float)mantissa, -9);
        return __x & 128 ? -magnitude : magnitude;
    }
};

#endif
