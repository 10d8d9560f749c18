/* The least that can stand between a client and a server: starts the server, and passes bytes both ways.
 * With -s FILE it appends 700 bytes, a record's size, to that file and syncs it before it passes what the client sends. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void pass(int from, int to, int file) {
    static char bytes[1 << 16];
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got <= 0) exit(0);
    if (file >= 0 && (write(file, bytes, 700) != 700 || fdatasync(file))) exit(1);
    for (ssize_t done = 0; done < got;) {
        ssize_t put = write(to, bytes + done, got - done);
        if (put <= 0) exit(1);
        done += put;
    }
}

int main(int count, char **words) {
    int down[2], up[2], record = -1;
    if (count > 3 && !strcmp(words[1], "-s")) {
        record = open(words[2], O_CREAT | O_WRONLY | O_APPEND, 0600);
        if (record < 0) return 1;
        words += 2, count -= 2;
    }
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
        if (ends[0].revents) pass(0, down[1], record);
        if (ends[1].revents) pass(up[0], 1, -1);
    }
}
