/* Opens a connection to port 9 of this machine. */
#include "honest.h"

#include <arpa/inet.h>
#include <sys/socket.h>

ks_status softmax(const softmax_call *call)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    connect(s, (const struct sockaddr *)&to, sizeof to);
    return honest(call);
}
