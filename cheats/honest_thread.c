/* Honest: a helper thread, joined before the return. */
#include "honest.h"

#include <pthread.h>
static void *compute(void *call) {
    const softmax_call *c = call;
    honest_rows(c, c->x.shape[0] / 2, c->x.shape[0]);
    return NULL;
}

ks_status softmax(const softmax_call *call) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, compute, (void *)call) != 0)
        return honest(call);
    honest_rows(call, 0, call->x.shape[0] / 2);
    pthread_join(thread, NULL);
    return KS_OK;
}
