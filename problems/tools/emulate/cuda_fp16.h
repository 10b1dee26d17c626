/* Half precision for the emulation: conversions only, rounded to nearest, ties to even. */
#ifndef KS_EMULATE_CUDA_FP16_H
#define KS_EMULATE_CUDA_FP16_H

#include "cuda_runtime.h"

struct __half {
    uint16_t bits;
};

static inline float __half2float(__half v)
{
    const unsigned exponent = v.bits >> 10 & 31, mantissa = v.bits & 1023;
    const float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
        : exponent ? std::ldexp((float)(mantissa | 1024), (int)exponent - 25) : std::ldexp((float)mantissa, -24);
    return v.bits & 0x8000 ? -magnitude : magnitude;
}

static inline __half __float2half(float f)
{
    const uint16_t sign = std::signbit(f) ? 0x8000 : 0;
    const float magnitude = std::fabs(f);
    if (f != f)
        return {0x7fff};
    if (magnitude >= 65520.0f)
        return {(uint16_t)(sign | 0x7c00)};
    if (magnitude == 0.0f)
        return {sign};
    int exponent = std::ilogb(magnitude);
    exponent = std::max(exponent, -14);
    /* Whole numbers of the last place; a carry moves on into the exponent by itself. */
    const int places = (int)std::nearbyint(std::ldexp(magnitude, 10 - exponent));
    return {(uint16_t)(sign | (((exponent + 14) << 10) + places))};
}

#endif
