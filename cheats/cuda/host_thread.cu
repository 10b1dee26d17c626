/* Returns at once; a thread of the host launches the work a little later.

   Expected: FAIL or UNPROVEN by correct., timed.. */
#include "honest.cuh"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *later(void *argument)
{
    softmax_call *call = (softmax_call *)argument;
    usleep(200);
    honest_on(call, private_stream());
    free(call);
    return 0;
}

ks_status softmax(const softmax_call *call)
{
    softmax_call *copy = (softmax_call *)malloc(sizeof *copy);
    pthread_t thread;
    if (!copy)
        return KS_ERROR;
    *copy = *call;
    if (pthread_create(&thread, 0, later, copy))
        return KS_ERROR;
    pthread_detach(thread);
    return KS_OK;
}
