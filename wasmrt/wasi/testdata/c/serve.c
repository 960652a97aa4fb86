// An HTTP server on the listener that it was started with. It serves many connections with poll, until it is to stop.
// Its argument is how it reads: "recv" or "read". "block" serves one connection after the other, without poll.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";
static int use_recv;

// Answers what has come, and tells whether the connection goes on.
static int serve(int fd) {
	char buf[4096];
	ssize_t n = use_recv ? recv(fd, buf, sizeof buf, 0) : read(fd, buf, sizeof buf);
	if (n <= 0) return n < 0 && errno == EAGAIN;
	size_t size = sizeof answer - 1;
	ssize_t sent = use_recv ? send(fd, answer, size, 0) : write(fd, answer, size);
	return sent == (ssize_t)size;
}

static int blocking(int listener) {
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (fd < 0) {
			perror("accept");
			return 1;
		}
		while (serve(fd)) {
		}
		close(fd);
	}
}

int main(int argc, char **argv) {
	int listener = atoi(getenv("EDGEPOD_LISTEN_FD")), stop = atoi(getenv("EDGEPOD_STOP_FD"));
	use_recv = !strcmp(argv[1], "recv");
	if (!strcmp(argv[1], "block")) return blocking(listener);
	static struct pollfd fds[1000];
	nfds_t n = 2;
	fds[0] = (struct pollfd){.fd = stop, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = listener, .events = POLLIN};
	for (;;) {
		if (poll(fds, n, -1) < 0) {
			perror("poll");
			return 1;
		}
		if (fds[0].revents) {
			printf("stopped with %s connections\n", n > 2 ? "some" : "no");
			return 5;
		}
		for (nfds_t i = n; i-- > 2;) {
			if (!fds[i].revents || serve(fds[i].fd)) continue;
			close(fds[i].fd);
			fds[i] = fds[--n];
		}
		if (fds[1].revents && n < sizeof fds / sizeof *fds) {
			int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
			if (fd >= 0) fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
		}
	}
}
