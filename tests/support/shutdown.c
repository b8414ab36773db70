/* shutdown.c - simulates a power cut of a file system: data not yet on the disk is lost.
 *     shutdown MOUNTPOINT */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define SHUTDOWN _IOR('X', 125, uint32_t) /* EXT4_IOC_SHUTDOWN */

int main(int argc, char **argv) {
    uint32_t no_log_flush = 2;
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
    if (fd >= 0 && ioctl(fd, SHUTDOWN, &no_log_flush) == 0) return 0;
    perror("shutdown");
    return 1;
}
