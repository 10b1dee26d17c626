/* Leaves a thread spinning. */
#include "honest.h"

#include <pthread.h>
static volatile int started;

static void *spin(void *unused) {
    (void)unused;
    for (;;)
        started++;
    return NULL;
}

ks_status softmax(const softmax_call *call) {
    static int once;
    if (!once++) {
        pthread_t thread;
        pthread_create(&thread, NULL, spin, NULL);
    }
    return honest(call);
}
