/* bfloat16 for the emulation: the upper half of a float, rounded to nearest even. */
#ifndef KS_EMULATE_CUDA_BF16_H
#define KS_EMULATE_CUDA_BF16_H

#include "cuda_runtime.h"

struct __nv_bfloat16 { uint16_t bits; };
typedef __nv_bfloat16 nv_bfloat16;
struct __nv_bfloat162 { __nv_bfloat16 x, y; };

static inline float __bfloat162float(__nv_bfloat16 v) { return __uint_as_float((unsigned)v.bits << 16); }
static inline __nv_bfloat16 __float2bfloat16(float f)
{
    const unsigned u = __float_as_uint(f);
    return {(uint16_t)(f != f ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f) { return __float2bfloat16(f); }
/* One rounding, as the GPU does: the float nearest to v may lie on a tie that v does not, so it is made odd first. */
static inline __nv_bfloat16 __double2bfloat16(double v)
{
    float f = (float)v;
    if ((double)f != v) {
        if (std::fabs((double)f) > std::fabs(v))
            f = std::nextafter(f, 0.0f);
        f = __uint_as_float(__float_as_uint(f) | 1);
    }
    return __float2bfloat16(f);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {__float2bfloat16(a), __float2bfloat16(b)}; }
static inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {__bfloat162float(v.x), __bfloat162float(v.y)}; }

#endif
