#include "pool.h"

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace pool {
namespace {
constexpr uint64_t SIZE = 1ull << 40; // of the file, of which next to nothing is ever there
int file = -1;

// The first page of the file.
struct Books {
    std::atomic<uint64_t> next_free, next_slot;
    std::atomic<uint64_t> used[PAGE / 8 - 2]; // by each process; slots are used again
};
constexpr uint64_t SLOTS = PAGE / 8 - 2;
Books *books;
uint64_t own_slot = 0; // 0: the process that made the memory

bool address_of(sockaddr_un *address)
{
    Dl_info here;
    if (!dladdr((const void *)&open, &here))
        return false;
    std::string path = here.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + "memory";
    address->sun_family = AF_UNIX;
    if (path.size() >= sizeof address->sun_path)
        return false;
    strcpy(address->sun_path, path.c_str());
    return true;
}

union Ancillary {
    char room[CMSG_SPACE(sizeof(int))];
    cmsghdr aligned;
};

int receive(int socket)
{
    iovec part{&own_slot, sizeof own_slot};
    Ancillary ancillary;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.room;
    message.msg_controllen = sizeof ancillary.room;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof own_slot)
        return -1;
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS)
        return -1;
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

void give(int socket, uint64_t slot)
{
    iovec part{&slot, sizeof slot};
    Ancillary ancillary{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.room;
    message.msg_controllen = sizeof ancillary.room;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &file, sizeof file);
    sendmsg(socket, &message, MSG_NOSIGNAL);
}

bool map_books()
{
    books = (Books *)mmap(nullptr, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return books != MAP_FAILED;
}

// Makes the memory and hands it to whoever asks, as long as this process lives.
bool serve(const sockaddr_un &address)
{
    file = memfd_create("stand-in GPU", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)SIZE) != 0 || !map_books())
        return false;
    books->next_free = PAGE;
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(address.sun_path);
    if (bind(socket, (const sockaddr *)&address, sizeof address) != 0 || listen(socket, 64) != 0)
        return false;
    std::thread([socket] {
        for (;;) {
            const int asked = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
            if (asked < 0)
                continue;
            const uint64_t slot = 1 + books->next_slot.fetch_add(1) % (SLOTS - 1);
            give(asked, slot);
            // The connection ends with the process.
            std::thread([asked, slot] {
                char byte;
                while (read(asked, &byte, 1) > 0) {
                }
                books->used[slot] = 0;
                close(asked);
            }).detach();
        }
    }).detach();
    return true;
}
} // namespace

bool open()
{
    sockaddr_un address{};
    if (!address_of(&address))
        return false;
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(socket, (const sockaddr *)&address, sizeof address) == 0)
        file = receive(socket);
    // The socket stays open: its end is this process's.
    if (file >= 0)
        return map_books();
    close(socket);
    return serve(address);
}

size_t free_bytes()
{
    uint64_t used = 0;
    for (const auto &one : books->used)
        used += one;
    return used < MEMORY ? MEMORY - used : 0;
}

uint64_t take(size_t bytes)
{
    if (bytes == 0 || bytes > free_bytes())
        return 0;
    books->used[own_slot] += bytes;
    return books->next_free.fetch_add(bytes);
}

void give_back(uint64_t offset, size_t bytes)
{
    books->used[own_slot] -= bytes;
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

void *map(uint64_t offset, size_t bytes)
{
    // A page on both sides that nobody may touch.
    char *room = (char *)mmap(nullptr, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return nullptr;
    void *at = mmap(room + PAGE, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)offset);
    return at == MAP_FAILED ? nullptr : at;
}
} // namespace pool
