/* nosync.c - preloaded into a program, turns fsync into a no-op: for tests that must detect this.
 */
int fsync(int fd) {
    (void)fd;
    return 0;
}
