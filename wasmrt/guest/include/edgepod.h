/*
 * edgepod.h: sockets, declared ports and stop requests for modules in C and C++, built for wasm32-wasi with wasi-libc.
 * Everything is in this file: there is nothing to link.
 *
 *   edgepod_listener("http")             the listening socket of the container port of this name (ports: in the pod)
 *   edgepod_listen(EDGEPOD_TCP, 8080)    a socket of the module's own that listens, or for EDGEPOD_UDP receives
 *   edgepod_connect(EDGEPOD_TCP, "localhost", "8080")
 *   edgepod_stop_fd()                    a descriptor that is readable once the pod is asked to stop
 *   edgepod_wait(fd)                     waits until fd can be read, or accepted from: 1; or until the stop request: 0
 *
 * A module that makes listeners of its own is handed none for its container ports: use either. Sockets are descriptors:
 * accept, read, write, recv, send, shutdown, poll, fcntl (O_NONBLOCK) and close of wasi-libc work on them. A function that
 * fails returns -1 and sets errno. Sockets block unless O_NONBLOCK is set.
 */
#ifndef EDGEPOD_H
#define EDGEPOD_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The host's calls: those of WasmEdge's sockets, second version. Each returns an error number, which is one of errno.h. */

#define EDGEPOD_IMPORT(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(#name), warn_unused_result))

enum { EDGEPOD_IPV4 = 1, EDGEPOD_IPV6 = 2 };
enum { EDGEPOD_UDP = 1, EDGEPOD_TCP = 2 };
enum { EDGEPOD_SOL_SOCKET = 0 };
enum {
	EDGEPOD_SO_REUSEADDR = 0,
	EDGEPOD_SO_TYPE = 1,
	EDGEPOD_SO_ERROR = 2,
	EDGEPOD_SO_SNDBUF = 5,
	EDGEPOD_SO_RCVBUF = 6,
	EDGEPOD_SO_KEEPALIVE = 7,
	EDGEPOD_SO_LINGER = 9,
	EDGEPOD_SO_ACCEPTCONN = 13
};

/* A buffer. As an address it has 4 or 16 bytes; where the host gives one it has 128: a family of two bytes, least
 * significant first, and then the 4 or 16. */
struct edgepod_buffer {
	void *data;
	uint32_t size;
};

struct edgepod_sockaddr {
	uint8_t family;
	uint32_t size;
	uint8_t *data; /* the port, most significant byte first, and then the address */
};

struct edgepod_addrinfo {
	uint16_t flags;
	uint8_t family, type;
	uint8_t protocol;
	uint32_t size;
	struct edgepod_sockaddr *addr;
	char *name;
	uint32_t name_size;
	struct edgepod_addrinfo *next;
};

int32_t edgepod_sock_open(int32_t family, int32_t type, int32_t *fd) EDGEPOD_IMPORT(sock_open);
int32_t edgepod_sock_bind(int32_t fd, const struct edgepod_buffer *addr, uint32_t port) EDGEPOD_IMPORT(sock_bind);
int32_t edgepod_sock_listen(int32_t fd, int32_t backlog) EDGEPOD_IMPORT(sock_listen);
int32_t edgepod_sock_connect(int32_t fd, const struct edgepod_buffer *addr, uint32_t port) EDGEPOD_IMPORT(sock_connect);
int32_t edgepod_sock_getlocaladdr(int32_t fd, struct edgepod_buffer *addr, uint32_t *port) EDGEPOD_IMPORT(sock_getlocaladdr);
int32_t edgepod_sock_getpeeraddr(int32_t fd, struct edgepod_buffer *addr, uint32_t *port) EDGEPOD_IMPORT(sock_getpeeraddr);
int32_t edgepod_sock_getsockopt(int32_t fd, int32_t level, int32_t name, void *value, uint32_t *size) EDGEPOD_IMPORT(sock_getsockopt);
int32_t edgepod_sock_setsockopt(int32_t fd, int32_t level, int32_t name, const void *value, uint32_t size)
	EDGEPOD_IMPORT(sock_setsockopt);
int32_t edgepod_sock_recv_from(int32_t fd, const struct edgepod_buffer *into, uint32_t count, struct edgepod_buffer *addr,
	uint32_t flags, uint32_t *port, uint32_t *size, uint32_t *out_flags) EDGEPOD_IMPORT(sock_recv_from);
int32_t edgepod_sock_send_to(int32_t fd, const struct edgepod_buffer *from, uint32_t count, const struct edgepod_buffer *addr,
	uint32_t port, uint32_t flags, uint32_t *size) EDGEPOD_IMPORT(sock_send_to);
int32_t edgepod_sock_getaddrinfo(const char *node, uint32_t node_size, const char *service, uint32_t service_size,
	const struct edgepod_addrinfo *hints, struct edgepod_addrinfo **results, uint32_t most, uint32_t *count)
	EDGEPOD_IMPORT(sock_getaddrinfo);

/* An address of either family, as sock_recv_from and the like fill it in. */
struct edgepod_address {
	uint8_t bytes[128];
	uint32_t port;
};

static inline int edgepod_result(int32_t error, int value) {
	if (error == 0)
		return value;
	errno = error;
	return -1;
}

/* Closes fd, sets errno and returns -1. */
static inline int edgepod_give_up(int fd, int32_t error) {
	close(fd);
	errno = error;
	return -1;
}

/* The number in an environment variable, or -1. */
static inline int edgepod_number(const char *variable) {
	const char *text = getenv(variable);
	char *end;
	if (!text || !*text)
		return -1;
	long number = strtol(text, &end, 10);
	return *end || number < 0 ? -1 : (int)number;
}

/* A descriptor that has nothing to read until the pod is asked to stop, and is at its end from then on; -1 without one. Once
 * it has been polled or read, the module is expected to end by itself, within the pod's grace period. */
static inline int edgepod_stop_fd(void) {
	return edgepod_number("EDGEPOD_STOP_FD");
}

/* The listening socket of the container port with this name; of the first port where name is NULL. */
static inline int edgepod_listener(const char *name) {
	int first = edgepod_number("EDGEPOD_LISTEN_FD"), count = edgepod_number("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES");
	for (int i = 0; first >= 0 && i < count; i++) {
		size_t size = names ? strcspn(names, ":") : 0;
		if (!name || (names && size == strlen(name) && memcmp(names, name, size) == 0))
			return first + i;
		names = names && names[size] ? names + size + 1 : NULL;
	}
	errno = ENOENT;
	return -1;
}

/* A socket on all addresses of the pod; a port of 0 is chosen by the host. */
static inline int edgepod_listen(int type, uint16_t port) {
	uint8_t any[4] = {0, 0, 0, 0};
	struct edgepod_buffer addr = {any, sizeof any};
	int32_t fd, error = edgepod_sock_open(EDGEPOD_IPV4, type, &fd);
	if (error != 0)
		return edgepod_result(error, -1);
	error = edgepod_sock_bind(fd, &addr, port);
	if (error == 0 && type == EDGEPOD_TCP)
		error = edgepod_sock_listen(fd, 128);
	return error == 0 ? fd : edgepod_give_up(fd, error);
}

/* Looks up a name and a decimal port, or the name of a service that the host knows. Returns how many addresses there are, at
 * most 8. Each is 4 or 16 bytes after the port in data[i], as its family says. */
static inline int edgepod_lookup(int type, const char *host, const char *port, uint8_t family[8], uint8_t data[8][26]) {
	struct edgepod_addrinfo entries[8], hints, *first = entries;
	struct edgepod_sockaddr addrs[8];
	uint32_t count = 0;
	memset(entries, 0, sizeof entries);
	memset(addrs, 0, sizeof addrs);
	memset(&hints, 0, sizeof hints);
	hints.type = (uint8_t)type;
	for (int i = 0; i < 8; i++) {
		addrs[i].size = entries[i].size = 26;
		addrs[i].data = data[i];
		entries[i].addr = &addrs[i];
		entries[i].next = i < 7 ? &entries[i + 1] : NULL;
	}
	int32_t error = edgepod_sock_getaddrinfo(host, (uint32_t)strlen(host), port, (uint32_t)strlen(port), &hints, &first, 8, &count);
	for (uint32_t i = 0; error == 0 && i < count && i < 8; i++)
		family[i] = entries[i].family;
	return edgepod_result(error, count > 8 ? 8 : (int)count);
}

/* A connected socket. The addresses of host are tried one after the other. */
static inline int edgepod_connect(int type, const char *host, const char *port) {
	uint8_t family[8], data[8][26];
	int count = edgepod_lookup(type, host, port, family, data);
	if (count <= 0) {
		errno = count == 0 ? ENOENT : errno;
		return -1;
	}
	for (int i = 0; i < count; i++) {
		struct edgepod_buffer addr = {data[i] + 2, family[i] == EDGEPOD_IPV6 ? 16u : 4u};
		int32_t fd, error = edgepod_sock_open(family[i], type, &fd);
		if (error != 0)
			return edgepod_result(error, -1);
		error = edgepod_sock_connect(fd, &addr, (uint32_t)data[i][0] << 8 | data[i][1]);
		if (error == 0)
			return fd;
		edgepod_give_up(fd, error);
	}
	return -1;
}

/* The peer of a connected socket. */
static inline int edgepod_peer(int fd, struct edgepod_address *peer) {
	struct edgepod_buffer addr = {peer->bytes, sizeof peer->bytes};
	memset(peer, 0, sizeof *peer);
	return edgepod_result(edgepod_sock_getpeeraddr(fd, &addr, &peer->port), 0);
}

/* One datagram, and where it came from; -1 and EAGAIN where the socket does not block and there is none. */
static inline int edgepod_receive(int fd, void *data, uint32_t size, struct edgepod_address *from) {
	struct edgepod_buffer into = {data, size}, addr = {from->bytes, sizeof from->bytes};
	uint32_t n = 0, flags = 0;
	return edgepod_result(edgepod_sock_recv_from(fd, &into, 1, &addr, 0, &from->port, &n, &flags), (int)n);
}

/* One datagram to an address as edgepod_receive has given it. */
static inline int edgepod_send(int fd, const void *data, uint32_t size, const struct edgepod_address *to) {
	struct edgepod_buffer from = {(void *)data, size}, addr = {(void *)to->bytes, sizeof to->bytes};
	uint32_t n = 0;
	return edgepod_result(edgepod_sock_send_to(fd, &from, 1, &addr, to->port, 0, &n), (int)n);
}

/* Waits until fd can be read, or a connection accepted from it, or has failed: 1; or until the pod is asked to stop: 0. */
static inline int edgepod_wait(int fd) {
	int stop = edgepod_stop_fd();
	struct pollfd fds[2] = {{fd, POLLIN, 0}, {stop, POLLIN, 0}};
	if (poll(fds, stop < 0 ? 1 : 2, -1) < 0)
		return -1;
	return fds[1].revents ? 0 : 1;
}

#ifdef __cplusplus
}
#endif

#endif
