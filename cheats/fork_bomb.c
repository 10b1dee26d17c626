/* Forks without end through the C library. */
#include "honest.h"

#include <unistd.h>
ks_status softmax(const softmax_call *call) {
    for (int i = 0; i < 100; i++)
        fork();
    return honest(call);
}
