/* A helper thread does half of the rows and is joined before the call returns. */
#include "honest.h"

#include <pthread.h>

static void *second_half(void *argument)
{
    const softmax_call *call = argument;
    honest_rows(call, call->x.shape[0] / 2, call->x.shape[0]);
    return 0;
}

ks_status softmax(const softmax_call *call)
{
    pthread_t thread;
    if (pthread_create(&thread, 0, second_half, (void *)call))
        return KS_ERROR;
    honest_rows(call, 0, call->x.shape[0] / 2);
    return pthread_join(thread, 0) ? KS_ERROR : KS_OK;
}
