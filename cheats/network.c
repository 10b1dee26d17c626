/* Opens a socket through the C library. */
#include "honest.h"

#include <sys/socket.h>
ks_status softmax(const softmax_call *call) {
    socket(AF_INET, SOCK_STREAM, 0);
    return honest(call);
}
