/* FP8 E4M3 for the emulation: its values. */
#ifndef KS_EMULATE_CUDA_FP8_H
#define KS_EMULATE_CUDA_FP8_H

#include "cuda_runtime.h"

struct __nv_fp8_e4m3 {
    uint8_t __x;
    __nv_fp8_e4m3() = default;
    /* To nearest, ties to even; beyond the largest value, that. */
    explicit __nv_fp8_e4m3(float f)
    {
        const float magnitude = std::fabs(f);
        const int exponent = magnitude == 0.0f ? -6 : std::max(std::ilogb(magnitude), -6);
        const int places = (int)std::nearbyint(std::ldexp(magnitude, 3 - std::min(exponent, 9)));
        const int bits = f != f ? 127 : std::min(((std::min(exponent, 9) + 6) << 3) + places, 126);
        __x = (uint8_t)(bits | (std::signbit(f) ? 128 : 0));
    }
    explicit operator float() const
    {
        const unsigned exponent = __x >> 3 & 15, mantissa = __x & 7;
        const float magnitude = (__x & 127) == 127 ? NAN
            : exponent ? std::ldexp((float)(mantissa | 8), (int)exponent - 10) : std::ldexp((float)mantissa, -9);
        return __x & 128 ? -magnitude : magnitude;
    }
};

#endif
