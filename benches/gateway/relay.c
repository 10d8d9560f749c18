/* The least that can stand between a client and a server: starts the server, and passes bytes both ways. */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

static void pass(int from, int to) {
    static char bytes[1 << 16];
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got <= 0) exit(0);
    for (ssize_t done = 0; done < got;) {
        ssize_t put = write(to, bytes + done, got - done);
        if (put <= 0) exit(1);
        done += put;
    }
}

int main(int count, char **words) {
    int down[2], up[2];
    if (count < 2 || pipe(down) || pipe(up)) return 1;
    if (fork() == 0) {
        dup2(down[0], 0);
        dup2(up[1], 1);
        close(down[0]), close(down[1]), close(up[0]), close(up[1]);
        execvp(words[1], words + 1);
        _exit(127);
    }
    close(down[0]), close(up[1]);
    struct pollfd ends[2] = {{.fd = 0, .events = POLLIN}, {.fd = up[0], .events = POLLIN}};
    for (;;) {
        if (poll(ends, 2, -1) < 0) return 1;
        if (ends[0].revents) pass(0, down[1]);
        if (ends[1].revents) pass(up[0], 1);
    }
}
