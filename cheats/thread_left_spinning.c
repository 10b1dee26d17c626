/* Leaves a thread spinning, which takes processor time from whoever is measured next. */
#include "honest.h"

#include <pthread.h>

static void *spin(void *unused)
{
    volatile int forever = 1;
    while (forever)
        ;
    return unused;
}

ks_status softmax(const softmax_call *call)
{
    static int done;
    if (!done++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, spin, 0))
            return KS_ERROR;
        pthread_detach(thread);
    }
    return honest(call);
}
