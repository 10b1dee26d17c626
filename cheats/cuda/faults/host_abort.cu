/* Calls abort().

   Expected: FAIL by correct.crash. */
#include "honest.cuh"

#include <cstdlib>

ks_status softmax(const softmax_call *call)
{
    honest(call);
    abort();
}
