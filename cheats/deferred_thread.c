/* Returns at once; a thread writes the answer a little later. */
#include "honest.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *later(void *argument)
{
    softmax_call *call = argument;
    usleep(200);
    honest(call);
    free(call);
    return 0;
}

ks_status softmax(const softmax_call *call)
{
    softmax_call *copy = malloc(sizeof *copy);
    pthread_t thread;
    if (!copy)
        return KS_ERROR;
    *copy = *call;
    if (pthread_create(&thread, 0, later, copy))
        return KS_ERROR;
    pthread_detach(thread);
    return KS_OK;
}
