/* Ends its process with code 3 in place of an answer.

   Expected: FAIL by correct.exit. */
#include "honest.cuh"

#include <cstdlib>

ks_status softmax(const softmax_call *call)
{
    honest(call);
    exit(3);
}
