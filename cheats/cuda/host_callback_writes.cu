/* Has the driver call it back when the stream gets there, and writes a file then.

   Expected: FAIL by allowed.import. */
#include "honest.cuh"

#include <stdio.h>

static void called_back(void *)
{
    FILE *file = fopen("/tmp/kernelseek-was-here", "w");
    if (file)
        fclose(file);
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    cudaLaunchHostFunc(stream_of(call), called_back, 0);
    return status;
}
