/* Loads cuBLAS at run time.

   Expected: FAIL by allowed.import. */
#include "honest.cuh"

#include <dlfcn.h>

ks_status softmax(const softmax_call *call)
{
    static void *library;
    if (!library)
        library = dlopen("libcublas.so.13", RTLD_NOW);
    return honest(call);
}
