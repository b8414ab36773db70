/* socket.h - local stream sockets of one user: a run listens, programs of the same user connect.
 *
 * Reads and writes never block: what cannot be done now is left for the next call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

SR_BEGIN_C

/* Room for the path of a socket, its zero byte included: the kernel's limit. */
enum { SR_SOCKET_PATH = 108 };

/* The directory of this user's sockets, created if needed, with mode 0700: "seqrun" in `runtime`
 * (XDG_RUNTIME_DIR, or NULL), in /run/user/UID, or /tmp/seqrun-UID; the first that can be used and
 * that leaves room for names of 27 bytes.  SR_EIO when none can. */
sr_status sr_socket_folder(char out[SR_SOCKET_PATH], const char *runtime);

/* Listens at a path with mode 0600; an existing socket is replaced.  The caller closes
 * *fd with sr_socket_close() and removes the path. */
sr_status sr_socket_listen(int *fd, const char *path);

/* The next connection, *fd = -1 if there is none; those of other users are closed. */
sr_status sr_socket_accept(int *fd, int listener);

/* SR_ENOENT when nobody listens there. */
sr_status sr_socket_connect(int *fd, const char *path);

/* Reads what is available: *got = 0 if there is nothing; *open is false once the other end has
 * closed. */
sr_status sr_socket_read(size_t *got, bool *open, int fd, void *bytes, size_t room);

/* Writes as much as there is room for; SR_EPEER when the other end has closed. */
sr_status sr_socket_write(size_t *sent, int fd, const void *bytes, size_t size);

/* Waits until the socket can be read (or written), at most `seconds`; a signal ends the wait. */
bool sr_socket_wait(int fd, bool writes, double seconds);

void sr_socket_close(int fd); /* -1: nothing */

SR_END_C
