// A client and a server that speak TCP and UDP through the socket extension, in the version that VERSION says.
//
//	serve   listens on port 7 of both, says "ready", and answers in capitals until somebody says "end"
//	call    says "hello" and then "end" over both, and prints the answers; over TCP without waiting in connect
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IMPORT(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(name)))

struct buffer {
	void *data;
	uint32_t size;
};

int32_t sock_open(int32_t family, int32_t type, int32_t *fd) IMPORT("sock_open");
int32_t sock_bind(int32_t fd, struct buffer *addr, uint32_t port) IMPORT("sock_bind");
int32_t sock_connect(int32_t fd, struct buffer *addr, uint32_t port) IMPORT("sock_connect");
int32_t sock_listen(int32_t fd, int32_t backlog) IMPORT("sock_listen");
int32_t sock_send_to(int32_t fd, struct buffer *iovs, uint32_t n, struct buffer *addr, int32_t port, uint32_t flags,
	uint32_t *size) IMPORT("sock_send_to");
int32_t sock_getsockopt(int32_t fd, int32_t level, int32_t name, int32_t *value, uint32_t *size) IMPORT("sock_getsockopt");
int32_t sock_setsockopt(int32_t fd, int32_t level, int32_t name, int32_t *value, uint32_t size) IMPORT("sock_setsockopt");

#if VERSION == 1
#define ADDRESS 4
int32_t sock_accept(int32_t fd, int32_t *conn) IMPORT("sock_accept");
int32_t sock_recv_from(int32_t fd, struct buffer *iovs, uint32_t n, struct buffer *addr, uint32_t flags, uint32_t *size,
	uint16_t *told) IMPORT("sock_recv_from");
int32_t sock_getpeeraddr(int32_t fd, struct buffer *addr, uint32_t *type, uint32_t *port) IMPORT("sock_getpeeraddr");
int32_t sock_getlocaladdr(int32_t fd, struct buffer *addr, uint32_t *type, uint32_t *port) IMPORT("sock_getlocaladdr");
#else
#define ADDRESS 128
int32_t sock_accept(int32_t fd, int32_t flags, int32_t *conn) IMPORT("sock_accept_v2");
int32_t sock_recv_from(int32_t fd, struct buffer *iovs, uint32_t n, struct buffer *addr, uint32_t flags, uint32_t *port,
	uint32_t *size, uint16_t *told) IMPORT("sock_recv_from_v2");
int32_t sock_getpeeraddr(int32_t fd, struct buffer *addr, uint32_t *port) IMPORT("sock_getpeeraddr");
int32_t sock_getlocaladdr(int32_t fd, struct buffer *addr, uint32_t *port) IMPORT("sock_getlocaladdr_v2");
#endif

enum { INET4 = 1, DGRAM = 1, STREAM = 2, REUSEADDR = 0, TYPE = 1, ERROR = 2 };

static uint8_t address[128];
static struct buffer addr = {address, ADDRESS};

// Makes addr hold 127.0.0.1.
static struct buffer *localhost(void) {
	memset(address, 0, sizeof address);
	uint8_t *at = address;
	if (ADDRESS == 128) {
		address[0] = INET4;
		at += 2;
	}
	memcpy(at, (uint8_t[]){127, 0, 0, 1}, 4);
	return &addr;
}

static void check(int32_t errnum, const char *what) {
	if (!errnum) return;
	printf("%s: %s\n", what, strerror(errnum));
	exit(1);
}

static uint32_t peer_port(int32_t fd) {
	uint32_t port = 0, type = 4;
#if VERSION == 1
	check(sock_getpeeraddr(fd, &addr, &type, &port), "getpeeraddr");
	int is_local = address[0] == 127;
#else
	check(sock_getpeeraddr(fd, &addr, &port), "getpeeraddr");
	int is_local = address[0] == INET4 && address[2] == 127;
#endif
	if (!is_local || type != 4) check(EINVAL, "address of the peer");
	return port;
}

static void capitals(char *text, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) text[i] = toupper(text[i]);
}

static int serve_stream(int32_t listener) {
	int32_t fd;
#if VERSION == 1
	check(sock_accept(listener, &fd), "accept");
#else
	check(sock_accept(listener, 0, &fd), "accept");
#endif
	if (!peer_port(fd)) check(EINVAL, "port of the peer");
	char text[64];
	ssize_t n = read(fd, text, sizeof text);
	if (n < 0) check(errno, "read");
	capitals(text, n);
	if (write(fd, text, n) != n) check(errno, "write");
	close(fd);
	return memcmp(text, "END", 3);
}

static void serve_packet(int32_t fd) {
	char text[64];
	struct buffer iov = {text, sizeof text};
	uint32_t n, port = 0;
	uint16_t told;
#if VERSION == 1
	// Its sender's port is not told: it is the one that the client has bound.
	check(sock_recv_from(fd, &iov, 1, &addr, 0, &n, &told), "recv_from");
	port = 9;
#else
	check(sock_recv_from(fd, &iov, 1, &addr, 0, &port, &n, &told), "recv_from");
#endif
	capitals(text, n);
	iov.size = n;
	check(sock_send_to(fd, &iov, 1, &addr, port, 0, &n), "send_to");
}

static int serve(void) {
	int32_t listener, packets, one = 1;
	check(sock_open(INET4, STREAM, &listener), "open");
	check(sock_setsockopt(listener, 0, REUSEADDR, &one, sizeof one), "setsockopt");
	check(sock_bind(listener, localhost(), 7), "bind");
	check(sock_listen(listener, 10), "listen");
	check(sock_open(INET4, DGRAM, &packets), "open");
	check(sock_bind(packets, localhost(), 7), "bind");
	puts("ready");
	fflush(stdout);
	struct pollfd fds[] = {{.fd = listener, .events = POLLIN}, {.fd = packets, .events = POLLIN}};
	for (int more = 1; more;) {
		if (poll(fds, 2, -1) < 0) check(errno, "poll");
		if (fds[1].revents) serve_packet(packets);
		if (fds[0].revents) more = serve_stream(listener);
	}
	puts("end");
	return 0;
}

static void call_packet(const char *say) {
	int32_t fd, type = 0;
	uint32_t n, size = sizeof type;
	check(sock_open(INET4, DGRAM, &fd), "open");
	check(sock_bind(fd, localhost(), 9), "bind");
	check(sock_getsockopt(fd, 0, TYPE, &type, &size), "getsockopt");
	if (type != DGRAM) check(EINVAL, "type");
	struct buffer iov = {(void *)say, strlen(say)};
	check(sock_send_to(fd, &iov, 1, localhost(), 7, 0, &n), "send_to");
	char text[64];
	ssize_t got = read(fd, text, sizeof text);
	if (got < 0) check(errno, "read");
	printf("%.*s\n", (int)got, text);
	close(fd);
}

static void call_stream(const char *say) {
	int32_t fd, error = -1;
	uint32_t size = sizeof error;
	check(sock_open(INET4, STREAM, &fd), "open");
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) check(errno, "fcntl");
	int32_t errnum = sock_connect(fd, localhost(), 7);
	if (errnum != EINPROGRESS) check(errnum, "connect");
	struct pollfd fds[] = {{.fd = fd, .events = POLLOUT}};
	if (poll(fds, 1, -1) < 0) check(errno, "poll");
	check(sock_getsockopt(fd, 0, ERROR, &error, &size), "getsockopt");
	check(error, "connect");
	if (peer_port(fd) != 7) check(EINVAL, "port of the peer");
	if (write(fd, say, strlen(say)) < 0) check(errno, "write");
	fds[0].events = POLLIN;
	if (poll(fds, 1, -1) < 0) check(errno, "poll");
	char text[64];
	ssize_t got = read(fd, text, sizeof text);
	if (got < 0) check(errno, "read");
	printf("%.*s\n", (int)got, text);
	close(fd);
}

int main(int argc, char **argv) {
	if (!strcmp(argv[1], "serve")) return serve();
	const char *words[] = {"hello", "end"};
	for (int i = 0; i < 2; i++) {
		call_packet(words[i]);
		call_stream(words[i]);
	}
	return 0;
}
