/* Opens a connection to port 9 of this machine, and a local socket pair. */
#include "honest.h"
#include "raw.h"

#include <arpa/inet.h>
#include <sys/socket.h>

ks_status softmax(const softmax_call *call)
{
    static int done;
    if (!done++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int pair[2];
        const long s = raw(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0, 0);
        raw(SYS_connect, s, (long)&to, sizeof to, 0, 0, 0);
        raw(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, (long)pair, 0, 0);
    }
    return honest(call);
}
