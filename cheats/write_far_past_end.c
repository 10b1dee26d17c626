/* Writes past the end of the output, page after page, until something stops it. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    honest(call);
    volatile float *y = call->y.data;
    for (int64_t page = 1; page < 4096; page++)
        y[elements(call) + page * 1024] = 0.5f;
    return KS_OK;
}
