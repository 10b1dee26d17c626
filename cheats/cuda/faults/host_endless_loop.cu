/* Never returns.

   Expected: FAIL by correct.deadline. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    honest(call);
    for (volatile int i = 0;; i = i + 1) {
    }
}
