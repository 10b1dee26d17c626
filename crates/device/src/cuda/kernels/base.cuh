// What every helper kernel stands on. The files of this folder compile with nvcc for the device and with any C++
// compiler for the tests, which run the same element logic on the CPU: whatever decides a bit is a KS_FN.
//
// Floating-point rules: only + - * / and sqrt, rounded to nearest, never contracted (nvcc -fmad=false,
// g++ -ffp-contract=off), so that Rust, g++ and every GPU give the same bits.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifdef __CUDACC__
#define KS_FN static __host__ __device__ __forceinline__
// A loop that is not unrolled: the driver compiles this code at every start on a new machine, so it is kept short.
#define KS_ROLLED _Pragma("unroll 1")
#define KS_UNROLLED_TWICE _Pragma("unroll 2")
#define KS_UNROLLED _Pragma("unroll")
#else
#include <cmath>
#include <cstring>
#define KS_FN static inline
#define KS_ROLLED
#define KS_UNROLLED_TWICE
#define KS_UNROLLED
#endif

#define KS_NONE (~0ull)

// DType codes of the call contract.
enum { KS_F64 = 1, KS_F32, KS_F16, KS_BF16, KS_E4M3, KS_E5M2, KS_I64, KS_I32, KS_I16, KS_I8, KS_U8, KS_BOOL };

KS_FN u32 ks_size(u32 dtype) {
    switch (dtype) {
    case KS_F64: case KS_I64: return 8;
    case KS_F32: case KS_I32: return 4;
    case KS_F16: case KS_BF16: case KS_I16: return 2;
    default: return 1;
    }
}

// Sixteen bytes, moved at once.
struct __attribute__((aligned(16))) ks_pair { u64 x, y; };

KS_FN u64 ks_bits_of(double x) { u64 b; memcpy(&b, &x, 8); return b; }
KS_FN double ks_double(u64 b) { double x; memcpy(&x, &b, 8); return x; }
KS_FN u32 ks_bits_of_float(float x) { u32 b; memcpy(&b, &x, 4); return b; }
KS_FN float ks_float(u32 b) { float x; memcpy(&x, &b, 4); return x; }
KS_FN double ks_abs(double x) { return ks_double(ks_bits_of(x) & 0x7FFFFFFFFFFFFFFFull); }
KS_FN double ks_max(double a, double b) { return b > a ? b : a; }
KS_FN bool ks_is_finite(double x) { return (ks_bits_of(x) >> 52 & 0x7FF) != 0x7FF; }
KS_FN u64 ks_least(u64 a, u64 b) { return a < b ? a : b; }

KS_FN u64 ks_high(u64 a, u64 b) {
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    return (u64)(((unsigned __int128)a * b) >> 64);
#endif
}

KS_FN u32 ks_leading_zeros(u32 x) {
#ifdef __CUDA_ARCH__
    return __clz((int)x);
#else
    return x ? __builtin_clz(x) : 32;
#endif
}

KS_FN u32 ks_leading_zeros64(u64 x) {
#ifdef __CUDA_ARCH__
    return __clzll((i64)x);
#else
    return x ? __builtin_clzll(x) : 64;
#endif
}

// Results that several threads contribute to. Integers only: their sums and minima do not depend on the order.
KS_FN void ks_atomic_add(u64 *at, u64 value) {
#ifdef __CUDA_ARCH__
    atomicAdd(at, value);
#else
    *at += value;
#endif
}
KS_FN void ks_atomic_min(u64 *at, u64 value) {
#ifdef __CUDA_ARCH__
    atomicMin(at, value);
#else
    *at = ks_least(*at, value);
#endif
}
KS_FN void ks_atomic_max(u64 *at, u64 value) {
#ifdef __CUDA_ARCH__
    atomicMax(at, value);
#else
    *at = *at < value ? value : *at;
#endif
}

// An address of global memory as a pointer that the compiler knows to be one.
template <class T> KS_FN T *ks_global(u64 address) {
#ifdef __CUDA_ARCH__
    return (T *)__cvta_global_to_generic((size_t)address);
#else
    return (T *)address;
#endif
}

// The `size` bytes at an address that is aligned to `size`, as a number.
KS_FN u64 ks_load(u64 address, u32 size) {
    switch (size) {
    case 8: return *ks_global<const u64>(address);
    case 4: return *ks_global<const u32>(address);
    case 2: return *ks_global<const u16>(address);
    default: return *ks_global<const u8>(address);
    }
}
KS_FN void ks_store(u64 address, u32 size, u64 bits) {
    switch (size) {
    case 8: *ks_global<u64>(address) = bits; break;
    case 4: *ks_global<u32>(address) = (u32)bits; break;
    case 2: *ks_global<u16>(address) = (u16)bits; break;
    default: *ks_global<u8>(address) = (u8)bits; break;
    }
}
KS_FN ks_pair ks_load_pair(u64 address) { return *ks_global<const ks_pair>(address); }
KS_FN void ks_store_pair(u64 address, ks_pair pair) { *ks_global<ks_pair>(address) = pair; }

// Bytes [8 * word, 8 * word + 8) of a range as a little-endian number; bytes past the end are 0. Any alignment.
KS_FN u64 ks_word(u64 address, u64 bytes, u64 word) {
    u64 at = 8 * word, left = bytes - at;
    if (left >= 8 && (address & 7) == 0) return *ks_global<const u64>(address + at);
    const u8 *p = ks_global<const u8>(address + at);
    u64 value = 0;
    u32 count = left < 8 ? (u32)left : 8;
    KS_ROLLED
    for (u32 k = 0; k < count; k++) value |= (u64)p[k] << (8 * k);
    return value;
}

// Writes those bytes.
KS_FN void ks_put_word(u64 address, u64 bytes, u64 word, u64 value) {
    u64 at = 8 * word, left = bytes - at;
    if (left >= 8 && (address & 7) == 0) { *ks_global<u64>(address + at) = value; return; }
    u8 *p = ks_global<u8>(address + at);
    u32 count = left < 8 ? (u32)left : 8;
    KS_ROLLED
    for (u32 k = 0; k < count; k++) p[k] = (u8)(value >> (8 * k));
}

// Bit mask of the low `size` bytes.
KS_FN u64 ks_mask(u32 size) { return size == 8 ? KS_NONE : (1ull << (8 * size)) - 1; }
