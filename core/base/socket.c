#include "core/base/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/io.h"

enum { NAME = 27, WAITING = 16 };

/* ---- the directory of sockets ---------------------------------------------------------------- */

/* Whether `folder` is a directory that only this user may enter; created if missing. */
static bool is_private(const char *folder) {
    struct stat st;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) return false;
    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 077) == 0;
}

static bool fits(int length) {
    return length > 0 && length + 1 + NAME < SR_SOCKET_PATH;
}

sr_status sr_socket_folder(char out[SR_SOCKET_PATH], const char *runtime) {
    unsigned user = geteuid();
    size_t room = SR_SOCKET_PATH;
    if (runtime != NULL && runtime[0] == '/' && fits(snprintf(out, room, "%s/seqrun", runtime)) &&
        is_private(out))
        return SR_OK;
    if (fits(snprintf(out, room, "/run/user/%u/seqrun", user)) && is_private(out)) return SR_OK;
    if (fits(snprintf(out, room, "/tmp/seqrun-%u", user)) && is_private(out)) return SR_OK;
    return sr_fail(SR_EIO,
                   "no directory for sockets: XDG_RUNTIME_DIR, /run/user/%u and %s cannot be used; "
                   "set XDG_RUNTIME_DIR to a directory that only you can enter",
                   user, out);
}

static sr_status address(struct sockaddr_un *a, const char *path) {
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof a->sun_path)
        return sr_fail(SR_EINVAL, "a socket's path has 1 to %zu bytes, got %zu: %s",
                       sizeof a->sun_path - 1, size, path);
    memcpy(a->sun_path, path, size);
    return SR_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static sr_status new_socket(int *fd) {
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd >= 0) return SR_OK;
    return sr_fail(SR_EIO, "cannot create a socket: %s", strerror(errno));
}

/* The mode is set before the name exists, so that no one else can connect in between. */
static sr_status start_listening(int fd, const struct sockaddr_un *a) {
    const char *path = a->sun_path;
    if (unlink(path) != 0 && errno != ENOENT) return sr_io_failed("remove", path);
    if (fchmod(fd, 0600) != 0) return sr_io_failed("protect", path);
    if (bind(fd, (const struct sockaddr *)a, sizeof *a) != 0) return sr_io_failed("create", path);
    if (chmod(path, 0600) == 0 && listen(fd, WAITING) == 0) return SR_OK;
    sr_status st = sr_io_failed("listen at", path);
    unlink(path);
    return st;
}

sr_status sr_socket_listen(int *fd, const char *path) {
    struct sockaddr_un a;
    *fd = -1;
    SR_TRY(address(&a, path));
    SR_TRY(new_socket(fd));
    sr_status st = start_listening(*fd, &a);
    if (st == SR_OK) return SR_OK;
    sr_socket_close(*fd);
    *fd = -1;
    return st;
}

/* Whether the other end is a process of this user. */
static bool is_ours(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

sr_status sr_socket_accept(int *fd, int listener) {
    for (;;) {
        *fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (*fd >= 0 && is_ours(*fd)) return SR_OK;
        if (*fd >= 0) {
            sr_socket_close(*fd);
            continue;
        }
        if (errno == EAGAIN) return SR_OK;
        if (errno != EINTR && errno != ECONNABORTED)
            return sr_fail(SR_EIO, "cannot accept a connection: %s", strerror(errno));
    }
}

sr_status sr_socket_connect(int *fd, const char *path) {
    struct sockaddr_un a;
    *fd = -1;
    SR_TRY(address(&a, path));
    SR_TRY(new_socket(fd));
    if (connect(*fd, (const struct sockaddr *)&a, sizeof a) == 0 && is_ours(*fd)) return SR_OK;
    int error = errno;
    sr_socket_close(*fd);
    *fd = -1;
    if (error == ENOENT || error == ECONNREFUSED)
        return sr_fail(SR_ENOENT, "%s: no process listens there", path);
    if (error == EAGAIN)
        return sr_fail(SR_EIO, "%s: too many programs are waiting to connect", path);
    return sr_fail(SR_EIO, "%s: cannot connect: %s", path, strerror(error));
}

void sr_socket_close(int fd) {
    if (fd >= 0) close(fd);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

sr_status sr_socket_read(size_t *got, bool *open, int fd, void *bytes, size_t room) {
    ssize_t n;
    *got = 0;
    *open = true;
    do n = recv(fd, bytes, room, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0) *got = (size_t)n;
    if (n > 0 || (n < 0 && errno == EAGAIN)) return SR_OK;
    *open = false;
    if (n == 0 || errno == ECONNRESET) return SR_OK;
    return sr_fail(SR_EIO, "cannot read from a socket: %s", strerror(errno));
}

sr_status sr_socket_write(size_t *sent, int fd, const void *bytes, size_t size) {
    ssize_t n;
    *sent = 0;
    do n = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0) *sent = (size_t)n;
    if (n >= 0 || errno == EAGAIN) return SR_OK;
    if (errno == EPIPE || errno == ECONNRESET)
        return sr_fail(SR_EPEER, "the other end of the socket has closed");
    return sr_fail(SR_EIO, "cannot write to a socket: %s", strerror(errno));
}

bool sr_socket_wait(int fd, bool writes, double seconds) {
    struct pollfd p = {.fd = fd, .events = writes ? POLLOUT : POLLIN};
    double ms = seconds * 1e3;
    return poll(&p, 1, ms < 1e9 ? (int)ms : 1000000000) > 0;
}
