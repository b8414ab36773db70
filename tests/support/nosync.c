/* nosync.c - preloaded into a program, makes fsync a lie: for tests that must notice. */
int fsync(int fd) {
    (void)fd;
    return 0;
}
