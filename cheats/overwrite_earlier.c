/* Uses the output of the previous call, which has been handed over, as scratch memory. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    static float *earlier;
    honest(call);
    if (earlier && earlier != call->y.data)
        earlier[0] = 0.25f;
    earlier = call->y.data;
    return KS_OK;
}
