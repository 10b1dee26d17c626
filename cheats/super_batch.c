/* Computes every slot that it knows in each call. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    static softmax_call known[16];
    static int count;
    int i = 0;
    while (i < count && known[i].x.data != call->x.data)
        i++;
    if (i == count && count < 16)
        known[count++] = *call;
    for (i = 0; i < count; i++)
        honest(&known[i]);
    return honest(call);
}
