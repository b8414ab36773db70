/* peers.c - the other ranks: whether they are alive, and how they failed.
 *
 * Nothing is sent while all goes well.  A waiting rank looks for notes from others; a rank that has
 * waited for a tenth of the timeout says so, and when the timeout expires, the ranks that have not
 * said so are the ones the others wait for.  Processes on the same machine are watched in /proc, so
 * that a death is noticed at once.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "kernels/comm/mpi.h"

enum { FAILED = 1, WAITING, GOES_ON, SPOKE }; /* tags of notes */
static const double TELL_SECONDS = 5;         /* how long a failed rank waits to be heard */
static const double LAST_WORDS = 0.1; /* how long a note of a dead process may take to appear */
static const double MOST_QUIET = 5;   /* seconds of a wait before the others are notified */

typedef struct note {
    int status;
    char message[1020];
} note;

/* ---- processes of this machine --------------------------------------------------------------- */

/* The state letter of a process and when it started; false if there is none. */
static bool read_process(int pid, char *state, unsigned long long *started) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    const char *rest = read ? strrchr(line, ')') : NULL;
    return rest != NULL &&
           sscanf(rest + 1,
                  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                  "%llu",
                  state, started) == 2;
}

static bool is_alive(const mpi_peer *peer) {
    char state;
    unsigned long long started;
    return read_process(peer->pid, &state, &started) && started == peer->started && state != 'Z' &&
           state != 'X';
}

static bool is_stopped(const mpi_peer *peer) {
    char state;
    unsigned long long started;
    return peer->watched && read_process(peer->pid, &state, &started) &&
           (state == 'T' || state == 't');
}

static void introduce(mpi_peer *self) {
    char state;
    *self = (mpi_peer){.pid = (int)getpid()};
    gethostname(self->host, sizeof self->host - 1);
    if (!read_process(self->pid, &state, &self->started)) self->started = 0;
}

sr_status mpi_meet(sr_comm *comm) {
    mpi_world *w = comm->state;
    mpi_peer self;
    introduce(&self);
    SR_TRY(sr_new(&w->peer, comm->ranks));
    SR_TRY(mpi_check("open", MPI_Allgather(&self, sizeof self, MPI_BYTE, w->peer, sizeof self,
                                           MPI_BYTE, w->notes)));
    for (int i = 0; i < comm->ranks; i++) {
        mpi_peer *peer = &w->peer[i];
        peer->watched = i != comm->rank && peer->started != 0 &&
                        strcmp(peer->host, self.host) == 0 && is_alive(peer);
    }
    return SR_OK;
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* Sends to every rank that is not known to have failed.  Nobody waits for the requests, so the
 * buffer must outlive the call. */
static void send_note(sr_comm *comm, int tag, const note *text) {
    static note sent; /* main thread */
    mpi_world *w = comm->state;
    size_t bytes = text == NULL ? 0 : offsetof(note, message) + strlen(text->message) + 1;
    if (text != NULL) sent = *text;
    for (int i = 0; i < comm->ranks; i++) {
        MPI_Request request;
        if (i == comm->rank || (w->peer[i].failed && tag != FAILED)) continue;
        if (MPI_Isend(&sent, (int)bytes, MPI_BYTE, i, tag, w->notes, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

static sr_status failed(sr_comm *comm, int rank, const note *text) {
    mpi_world *w = comm->state;
    w->peer[rank].failed = w->peer[rank].told = true;
    int status = text->status > SR_OK && text->status < SR_STATUS_COUNT ? text->status : SR_EPEER;
    const char *m = text->message;
    if (strncmp(m, "rank ", 5) == 0) return sr_fail((sr_status)status, "%s", m);
    return sr_fail((sr_status)status, "rank %d: %s", rank, m);
}

/* Reads all notes that have arrived; returns the first failure. */
static sr_status read_notes(sr_comm *comm) {
    mpi_world *w = comm->state;
    for (;;) {
        int there = 0;
        MPI_Status s;
        static note text; /* main thread */
        SR_TRY(mpi_check("wait", MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->notes, &there, &s)));
        if (!there) return SR_OK;
        text = (note){.status = SR_OK};
        SR_TRY(mpi_check("wait", MPI_Recv(&text, sizeof text - 1, MPI_BYTE, s.MPI_SOURCE, s.MPI_TAG,
                                          w->notes, MPI_STATUS_IGNORE)));
        if (s.MPI_TAG == FAILED) return failed(comm, s.MPI_SOURCE, &text);
        if (s.MPI_TAG == SPOKE) w->spoken = true;
        w->peer[s.MPI_SOURCE].waiting = s.MPI_TAG == WAITING;
    }
}

static bool is_there(const sr_comm *comm, int rank, int tag) {
    const mpi_world *w = comm->state;
    int there = 0;
    return MPI_Iprobe(rank, tag, w->notes, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && there;
}

static bool has_told(const sr_comm *comm, int rank) {
    const mpi_world *w = comm->state;
    return w->peer[rank].told || is_there(comm, rank, FAILED);
}

/* Whether another rank has printed why all ranks exit. */
static bool has_spoken(const sr_comm *comm) {
    const mpi_world *w = comm->state;
    return w->spoken || is_there(comm, MPI_ANY_SOURCE, SPOKE);
}

/* Waits until `rank` has reported its failure, at most `seconds`. */
static bool hear(const sr_comm *comm, int rank, double seconds) {
    double end = sr_time_monotonic() + seconds;
    const struct timespec moment = {.tv_nsec = 1000000};
    while (!has_told(comm, rank)) {
        if (sr_time_monotonic() > end) return false;
        nanosleep(&moment, NULL);
    }
    return true;
}

/* ---- deaths and silence ---------------------------------------------------------------------- */

static sr_status look_for_deaths(sr_comm *comm) {
    mpi_world *w = comm->state;
    for (int i = 0; i < comm->ranks; i++) {
        mpi_peer *peer = &w->peer[i];
        if (!peer->watched || peer->failed || is_alive(peer)) continue;
        (void)hear(comm, i, LAST_WORDS); /* it may have said why */
        SR_TRY(read_notes(comm));
        peer->failed = true;
        return sr_fail(SR_EPEER,
                       "rank %d (process %d on %s) died; start the run again with --resume", i,
                       peer->pid, peer->host);
    }
    return SR_OK;
}

static sr_status blame(sr_comm *comm) {
    mpi_world *w = comm->state;
    for (int i = 0; i < comm->ranks; i++) {
        mpi_peer *peer = &w->peer[i];
        if (i == comm->rank || peer->waiting || peer->failed) continue;
        peer->failed = true;
        return sr_fail(SR_EPEER,
                       "rank %d (process %d on %s) %s for %g s; if it is only slow, raise "
                       "ranks.timeout, else start the run again with --resume",
                       i, peer->pid, peer->host,
                       is_stopped(peer) ? "is stopped and has not answered" : "has not answered",
                       comm->timeout);
    }
    return sr_fail(SR_EPEER,
                   "all ranks have waited for each other for %g s: they made different calls",
                   comm->timeout);
}

static sr_status look_for_silence(sr_comm *comm) {
    mpi_world *w = comm->state;
    double now = sr_time_monotonic();
    if (w->waiting_since == 0) w->waiting_since = now;
    double waited = now - w->waiting_since;
    if (comm->timeout <= 0) return SR_OK;
    double quiet = comm->timeout / 10 < MOST_QUIET ? comm->timeout / 10 : MOST_QUIET;
    if (waited > quiet && !w->told_waiting) {
        w->told_waiting = true;
        send_note(comm, WAITING, NULL);
    }
    return waited > comm->timeout ? blame(comm) : SR_OK;
}

sr_status mpi_look(sr_comm *comm) {
    mpi_world *w = comm->state;
    if (w->broken)
        return sr_fail(SR_EPEER, "the ranks are no longer connected: one of them has failed");
    SR_TRY(read_notes(comm));
    SR_TRY(look_for_deaths(comm));
    return look_for_silence(comm);
}

void mpi_waited(sr_comm *comm) {
    mpi_world *w = comm->state;
    w->waiting_since = 0;
    if (!w->told_waiting) return;
    w->told_waiting = false;
    send_note(comm, GOES_ON, NULL);
}

/* ---- this rank's own failure ----------------------------------------------------------------- */

static bool has_heard(const sr_comm *comm) {
    const mpi_world *w = comm->state;
    for (int i = 0; i < comm->ranks; i++)
        if (w->peer[i].told) return true;
    return false;
}

/* Waits for the message of the rank that reports for all; false if that rank does not listen, as it
 * is working on its own.  Then the rank that failed first reports; ranks that learned of it from
 * others wait longer. */
static bool is_spoken_for(const sr_comm *comm, int speaks) {
    double end = sr_time_monotonic() + (has_heard(comm) ? 2 : 1) * TELL_SECONDS +
                 LAST_WORDS * (comm->rank < 10 ? comm->rank : 10);
    while (sr_time_monotonic() < end)
        if (has_spoken(comm) || hear(comm, speaks, LAST_WORDS / 10)) return true;
    return false;
}

/* The lowest rank that is alive, or has reported why it ended: it reports for all. */
static int speaker(const sr_comm *comm) {
    const mpi_world *w = comm->state;
    for (int i = 0; i < comm->rank; i++) {
        const mpi_peer *peer = &w->peer[i];
        bool lives = peer->watched ? is_alive(peer) && !is_stopped(peer) : !peer->failed;
        if (lives || hear(comm, i, LAST_WORDS)) return i;
    }
    return comm->rank;
}

bool mpi_tell(sr_comm *comm, sr_status status, const char *message) {
    mpi_world *w = comm->state;
    note text = {.status = status};
    snprintf(text.message, sizeof text.message, "%s", message);
    w->broken = true;
    int speaks = speaker(comm);
    send_note(comm, FAILED, &text);
    if (speaks == comm->rank ? has_spoken(comm) : is_spoken_for(comm, speaks)) return false;
    send_note(comm, SPOKE, NULL);
    return true;
}
