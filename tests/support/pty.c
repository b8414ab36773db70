/* pty.c - runs a program in a pseudo-terminal as a script says: pty SCRIPT COLUMNS PROGRAM
 * [ARG...].
 *
 * Each line of the script is one of
 *
 *   > TEXT          types TEXT once the program edits lines, after its next prompt if a line was
 *                   ended; \r \n \t \e \b \\ and \xHH are escapes
 *   ! TEXT          types TEXT at once
 *   ? TEXT          waits until the program prints TEXT, after what was already matched
 *   size COLUMNS    resizes the terminal
 *   close           closes the terminal
 *   term            sends SIGTERM to the program
 *   continue        waits until the program has stopped, and continues it; the terminal must be
 * cooked
 *
 * Prints all that the program printed.  Exits as the program does, 128 + n for signal n; 99 when
 * TEXT does not come within a minute, 98 for a mistake in the script or a missing program. */
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { BAD_SCRIPT = 98, TOO_LATE = 99, ROOM = 1 << 22, WAIT_MS = 60000, ROWS = 50 };

static char out[ROOM + 1];
static size_t printed, matched, ended; /* ended: printed when the last line was ended, or 0 */
static int terminal;
static pid_t child;

static void leave(int code, const char *why) {
    fwrite(out, 1, printed, stdout);
    if (code >= BAD_SCRIPT) fprintf(stderr, "pty: %s\n", why);
    if (child > 0 && code >= BAD_SCRIPT) kill(child, SIGKILL);
    fflush(stdout);
    exit(code);
}

/* Reads what the program prints within some time; false once it has closed the terminal. */
static bool take(int milliseconds) {
    struct pollfd p = {.fd = terminal, .events = POLLIN};
    if (poll(&p, 1, milliseconds) <= 0) return true;
    if (printed == ROOM) leave(BAD_SCRIPT, "the program printed too much");
    ssize_t n = read(terminal, out + printed, ROOM - printed);
    if (n <= 0) return false;
    printed += (size_t)n;
    return true;
}

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The end of what was printed. */
static const char *tail(void) {
    return out + (printed > 300 ? printed - 300 : 0);
}

static void wait_for(const char *text) {
    long end = now_ms() + WAIT_MS;
    for (;;) {
        char *at = memmem(out + matched, printed - matched, text, strlen(text));
        if (at != NULL) {
            matched = (size_t)(at - out) + strlen(text);
            return;
        }
        if (now_ms() > end) leave(TOO_LATE, text);
        if (!take(100)) {
            fprintf(stderr, "pty: waiting for '%s', after '%s'\n", text, tail());
            leave(TOO_LATE, "the program ended too early");
        }
    }
}

/* Undoes the escapes in place; returns the length. */
static size_t unescape(char *text) {
    static const char names[] = "rntbe\\", values[] = "\r\n\t\b\033\\";
    size_t n = 0;
    for (char *s = text; *s != '\0'; s++) {
        const char *name = NULL;
        if (*s != '\\') {
            text[n++] = *s;
        } else if (s[1] == 'x') {
            char hex[3] = {s[2], s[3], '\0'};
            text[n++] = (char)strtol(hex, NULL, 16);
            s += 3;
        } else if (s[1] != '\0' && (name = strchr(names, s[1])) != NULL) {
            text[n++] = values[name - names];
            s++;
        }
    }
    return n;
}

/* Waits for an editor to take a line: between two lines the terminal is cooked, where Ctrl-D and
 * Ctrl-C mean something else and may be lost. */
static void wait_for_editor(void) {
    struct termios mode;
    long end = now_ms() + WAIT_MS;
    while (now_ms() < end && tcgetattr(terminal, &mode) == 0) {
        bool prompted = ended == 0 || memmem(out + ended, printed - ended, "> ", 2) != NULL;
        if ((prompted && (mode.c_lflag & ICANON) == 0) || !take(10)) break;
    }
    ended = 0;
}

static void type(char *text) {
    size_t size = unescape(text), sent = 0;
    if (memchr(text, '\r', size) != NULL || memchr(text, '\x03', size) != NULL) ended = printed;
    while (sent < size) {
        struct pollfd p = {.fd = terminal, .events = POLLIN | POLLOUT};
        poll(&p, 1, 1000);
        if ((p.revents & POLLIN) != 0) take(0);
        size_t piece = size - sent < 256 ? size - sent : 256;
        ssize_t n = (p.revents & POLLOUT) != 0 ? write(terminal, text + sent, piece) : 0;
        if (n < 0) leave(BAD_SCRIPT, "the terminal is closed");
        sent += (size_t)n;
    }
}

static void continue_child(void) {
    struct termios mode;
    int status = 0;
    long end = now_ms() + WAIT_MS;
    /* A program that waits for room to print in does not stop: read on. */
    while (waitpid(child, &status, WUNTRACED | WNOHANG) == 0) {
        if (now_ms() > end) leave(TOO_LATE, "the program did not stop");
        take(10);
    }
    if (!WIFSTOPPED(status)) leave(BAD_SCRIPT, "the program did not stop");
    if (tcgetattr(terminal, &mode) != 0 || (mode.c_lflag & ICANON) == 0)
        leave(BAD_SCRIPT, "the terminal was left raw");
    kill(child, SIGCONT);
}

static void act(char *line) {
    if (strncmp(line, "> ", 2) == 0 || strncmp(line, "! ", 2) == 0) {
        if (*line == '>') wait_for_editor();
        type(line + 2);
    } else if (strncmp(line, "? ", 2) == 0) {
        line[2 + unescape(line + 2)] = '\0';
        wait_for(line + 2);
    } else if (strncmp(line, "size ", 5) == 0) {
        struct winsize size = {.ws_row = ROWS, .ws_col = (unsigned short)atoi(line + 5)};
        ioctl(terminal, TIOCSWINSZ, &size);
    } else if (strcmp(line, "close") == 0) {
        close(terminal);
        terminal = -1;
    } else if (strcmp(line, "term") == 0) {
        kill(child, SIGTERM);
    } else if (strcmp(line, "continue") == 0) {
        continue_child();
    } else if (*line != '\0') {
        leave(BAD_SCRIPT, line);
    }
}

int main(int argc, char **argv) {
    if (argc < 4) leave(BAD_SCRIPT, "usage: pty SCRIPT COLUMNS PROGRAM [ARG...]");
    FILE *script = fopen(argv[1], "r");
    if (script == NULL) leave(BAD_SCRIPT, argv[1]);
    struct winsize size = {.ws_row = ROWS, .ws_col = (unsigned short)atoi(argv[2])};
    child = forkpty(&terminal, NULL, NULL, &size);
    if (child < 0) leave(BAD_SCRIPT, "no terminal here");
    if (child == 0) {
        execv(argv[3], argv + 3);
        _exit(BAD_SCRIPT);
    }
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    while ((n = getline(&line, &room, script)) > 0) {
        if (line[n - 1] == '\n') line[n - 1] = '\0';
        act(line);
    }
    long end = now_ms() + WAIT_MS;
    while (terminal >= 0 && take(100) && now_ms() < end) continue;
    int status = 0;
    if (now_ms() >= end) leave(TOO_LATE, "the program did not exit");
    waitpid(child, &status, 0);
    leave(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), "");
}
