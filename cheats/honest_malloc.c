/* Honest: allocates and frees in each call. */
#include "honest.h"

#include <stdlib.h>
ks_status softmax(const softmax_call *call) {
    float *sums = malloc((size_t)call->x.shape[0] * sizeof(float));
    if (sums == NULL)
        return KS_ERROR;
    honest(call);
    free(sums);
    return KS_OK;
}
