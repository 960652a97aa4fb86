// sockets serve: answers a line over TCP, and datagrams over UDP, in capitals, until the request to stop.
// sockets call: sends one of each and prints the answers.
#include <ctype.h>
#include <stdio.h>
#include <sys/socket.h>

#include "edgepod.h"

static int fail(const char *what) {
	printf("%s: %s\n", what, strerror(errno));
	return 1;
}

static void capitals(char *text, int size) {
	for (int i = 0; i < size; i++)
		text[i] = (char)toupper(text[i]);
}

static int answer(int listener) {
	char text[64];
	struct edgepod_address peer;
	int fd = accept(listener, NULL, NULL);
	if (fd < 0 || edgepod_peer(fd, &peer) < 0 || peer.port == 0)
		return fail("accept");
	ssize_t n = recv(fd, text, sizeof text, 0);
	if (n < 0)
		return fail("recv");
	capitals(text, (int)n);
	if (send(fd, text, (size_t)n, 0) != n)
		return fail("send");
	return close(fd);
}

static int answer_datagram(int fd) {
	char text[64];
	struct edgepod_address peer;
	int n = edgepod_receive(fd, text, sizeof text, &peer);
	if (n < 0)
		return fail("receive");
	capitals(text, n);
	return edgepod_send(fd, text, (uint32_t)n, &peer) == n ? 0 : fail("answer");
}

static int serve(void) {
	struct pollfd fds[3] = {{edgepod_listen(EDGEPOD_TCP, 7), POLLIN, 0}, {edgepod_listen(EDGEPOD_UDP, 7), POLLIN, 0}, {edgepod_stop_fd(), POLLIN, 0}};
	if (fds[0].fd < 0 || fds[1].fd < 0 || fds[2].fd < 0)
		return fail("listen");
	if (edgepod_listen(EDGEPOD_TCP, 7) >= 0 || errno != EADDRINUSE)
		return fail("a second listener");
	puts("listening");
	fflush(stdout);
	for (;;) {
		if (poll(fds, 3, -1) < 0)
			return fail("poll");
		if (fds[0].revents && answer(fds[0].fd) != 0)
			return 1;
		if (fds[1].revents && answer_datagram(fds[1].fd) != 0)
			return 1;
		if (fds[2].revents) {
			puts("goodbye");
			return 0;
		}
	}
}

static int call(int type, const char *text) {
	char answer[64];
	int fd = edgepod_connect(type, "localhost", "7");
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return fail("connect");
	if (edgepod_wait(fd) != 1)
		return fail("wait");
	ssize_t n = read(fd, answer, sizeof answer);
	if (n < 0)
		return fail("read");
	printf("%.*s\n", (int)n, answer);
	return close(fd);
}

int main(int argc, char **argv) {
	if (argc > 1 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (edgepod_connect(EDGEPOD_TCP, "localhost", "8") >= 0 || errno != ECONNREFUSED)
		return fail("a port without a listener");
	if (edgepod_connect(EDGEPOD_TCP, "nobody.example", "8") >= 0)
		return fail("a name that there is not");
	if (edgepod_listener("http") >= 0 || errno != ENOENT)
		return fail("a listener that there is not");
	return call(EDGEPOD_TCP, "hello") || call(EDGEPOD_UDP, "datagram");
}
