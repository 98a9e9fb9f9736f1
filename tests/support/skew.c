/* Preloaded: moves the wall clock of a process by the seconds in the file SKEW, read at each call. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long seconds(void) {
    char text[32];
    const char *name = getenv("SKEW");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *moment) {
    int status = syscall(SYS_clock_gettime, clock, moment);
    if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        moment->tv_sec += seconds();
    return status;
}

int gettimeofday(struct timeval *moment, void *zone) {
    struct timespec precise;
    int status = clock_gettime(CLOCK_REALTIME, &precise);
    moment->tv_sec = precise.tv_sec;
    moment->tv_usec = precise.tv_nsec / 1000;
    return status;
}

time_t time(time_t *moment) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (moment) *moment = precise.tv_sec;
    return precise.tv_sec;
}
