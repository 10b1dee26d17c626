/* Loads somebody else's library at run time. */
#include "honest.h"

#include <dlfcn.h>

ks_status softmax(const softmax_call *call)
{
    void *library = dlopen("libblas.so.3", RTLD_NOW);
    if (library && dlsym(library, "sgemm_"))
        return honest(call);
    return honest(call);
}
