/* Loads a library at run time. */
#include "honest.h"

#include <dlfcn.h>
ks_status softmax(const softmax_call *call) {
    dlopen("libcblas.so", RTLD_NOW);
    return honest(call);
}
