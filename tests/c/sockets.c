/*
 * Sockets of rsocket.h between threads of this process: every call, whole and broken transfers, ends, and errors. Each line
 * tells what was expected if that is not what came.
 */
#define _GNU_SOURCE
#include "common.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>

enum { LARGE = 3000001 };

static int failures;
static int listener;
static struct sockaddr_in server = { .sin_family = AF_INET };

/* Compares what came with what is expected. */
#define EXPECT(value, expected)                                                                       \
	do {                                                                                          \
		long came = (long)(value), wanted = (long)(expected);                                 \
		if (came != wanted) {                                                                 \
			printf("line %d: %s is %ld, not %s = %ld\n", __LINE__, #value, came,          \
			       #expected, wanted);                                                    \
			failures++;                                                                   \
		}                                                                                     \
	} while (0)

/* Expects a call to fail with an error number. */
#define REFUSED(call, number)                                                                         \
	do {                                                                                          \
		errno = 0;                                                                            \
		EXPECT(call, -1);                                                                     \
		EXPECT(errno, number);                                                                \
	} while (0)

static unsigned char pattern(size_t at)
{
	return at * 2654435761u >> 24;
}

static void *connect_it(void *fd)
{
	EXPECT(rconnect(*(int *)fd, (void *)&server, sizeof(server)), 0);
	return NULL;
}

/* Two ends of a connection. */
static void make_pair(int *a, int *b)
{
	struct sockaddr_in peer;
	socklen_t length = sizeof(peer);
	pthread_t thread;

	NEED((*a = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	NEED(!pthread_create(&thread, NULL, connect_it, a));
	NEED((*b = raccept(listener, (void *)&peer, &length)) >= 0);
	NEED(!pthread_join(thread, NULL));
	EXPECT(length == sizeof(peer) && peer.sin_addr.s_addr == server.sin_addr.s_addr, 1);
}

static void errors(void)
{
	char byte;
	int fd;

	REFUSED(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	REFUSED(rsend(0, "x", 1, 0), EBADF);
	REFUSED(rclose(0), EBADF);
	NEED((fd = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	REFUSED(rrecv(fd, &byte, 1, 0), ENOTCONN);
	REFUSED(rsend(fd, "x", 1, 0), ENOTCONN);
	REFUSED(rgetpeername(fd, (void *)&server, &(socklen_t){ sizeof(server) }), ENOTCONN);
	REFUSED(raccept(fd, NULL, NULL), EINVAL);
	EXPECT(rclose(fd), 0);
	REFUSED(rclose(fd), EBADF);
}

static void options(void)
{
	int fd, value = 0;
	socklen_t length = sizeof(value);

	NEED((fd = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	EXPECT(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, 4), 0);
	EXPECT(rgetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, &length), 0);
	EXPECT(value, 1);
	EXPECT(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &(int){ 64 }, 4), 0);
	EXPECT(rgetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &value, &length), 0);
	EXPECT(value, 64);
	EXPECT(rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, 4), 0);
	REFUSED(rsetsockopt(fd, SOL_SOCKET, SO_DEBUG, &value, 4), ENOTSUP);
	REFUSED(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, 1), EINVAL);
	EXPECT(rfcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	EXPECT(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	EXPECT(rfcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	EXPECT(rclose(fd), 0);
}

static void listening(void)
{
	socklen_t length = sizeof(server);

	NEED((listener = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	inet_pton(AF_INET, "127.0.0.1", &server.sin_addr);
	EXPECT(rbind(listener, (void *)&server, sizeof(server)), 0);
	EXPECT(rlisten(listener, 8), 0);
	EXPECT(rgetsockname(listener, (void *)&server, &length), 0);
	EXPECT(length == sizeof(server) && server.sin_port != 0, 1);
	EXPECT(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	REFUSED(raccept(listener, NULL, NULL), EAGAIN);
	EXPECT(rfcntl(listener, F_SETFL, 0), 0);
}

static void *send_large(void *fd)
{
	unsigned char *data = malloc(LARGE);

	for (size_t i = 0; i < LARGE; i++)
		data[i] = pattern(i);
	EXPECT(rsend(*(int *)fd, data, LARGE, 0), LARGE);
	free(data);
	return NULL;
}

/* More than all buffers hold, in pieces of every size. */
static void large(void)
{
	static unsigned char piece[70000];
	pthread_t thread;
	size_t got = 0, wrong = 0;
	int a, b;

	make_pair(&a, &b);
	NEED(!pthread_create(&thread, NULL, send_large, &a));
	for (size_t want = 1; got < LARGE; want = want * 3 % sizeof(piece) + 1) {
		ssize_t count = rrecv(b, piece, want, 0);

		NEED(count > 0);
		for (ssize_t i = 0; i < count; i++)
			wrong += piece[i] != pattern(got + i);
		got += count;
	}
	EXPECT(got, LARGE);
	EXPECT(wrong, 0);
	NEED(!pthread_join(thread, NULL));
	EXPECT(rclose(a), 0);
	EXPECT(rclose(b), 0);
}

static void vectors(void)
{
	char one[3], two[8] = "", peek[4];
	struct iovec from[] = { { "abc", 3 }, { "", 0 }, { "defgh", 5 } }, to[] = { { one, 3 }, { two, 5 } };
	struct msghdr message = { .msg_iov = to, .msg_iovlen = 2 };
	int a, b;

	make_pair(&a, &b);
	EXPECT(rwritev(a, from, 3), 8);
	EXPECT(rrecv(b, peek, 4, MSG_PEEK), 3 + (peek[3] == 'd'));
	EXPECT(rrecv(b, peek, 0, 0), 0);
	EXPECT(rrecvmsg(b, &message, MSG_WAITALL), 8);
	EXPECT(memcmp(one, "abc", 3) == 0 && strcmp(two, "defgh") == 0, 1);
	REFUSED(rrecv(b, peek, 1, MSG_DONTWAIT), EAGAIN);
	EXPECT(rclose(a), 0);
	EXPECT(rclose(b), 0);
}

/* Both directions end on their own. */
static void ends(void)
{
	char buffer[16];
	int a, b;

	make_pair(&a, &b);
	EXPECT(rwrite(a, "last", 4), 4);
	EXPECT(rshutdown(a, SHUT_WR), 0);
	REFUSED(rwrite(a, "more", 4), ECONNRESET);
	EXPECT(rrecv(b, buffer, 16, MSG_WAITALL), 4);
	EXPECT(rread(b, buffer, 16), 0);
	EXPECT(rwrite(b, "answer", 6), 6);
	EXPECT(rrecv(a, buffer, 6, MSG_WAITALL), 6);
	EXPECT(rclose(b), 0);
	EXPECT(rread(a, buffer, 16), 0);
	EXPECT(rclose(a), 0);
}

static void waiting(void)
{
	struct sockaddr_in nobody = server;
	struct pollfd fds[3];
	char byte;
	int a, b, pipes[2], value;
	socklen_t length = sizeof(value);
	fd_set readable;
	struct timeval second = { 1, 0 };

	make_pair(&a, &b);
	NEED(!pipe(pipes));
	fds[0] = (struct pollfd){ a, POLLIN };
	fds[1] = (struct pollfd){ pipes[0], POLLIN };
	fds[2] = (struct pollfd){ listener, POLLIN };
	EXPECT(rpoll(fds, 3, 20), 0);
	fds[0].events |= POLLOUT;
	EXPECT(rpoll(fds, 3, 1000), 1);
	EXPECT(fds[0].revents, POLLOUT);
	fds[0].events = POLLIN;
	EXPECT(rwrite(b, "x", 1), 1);
	EXPECT(rpoll(fds, 3, 10000), 1);
	EXPECT(fds[0].revents, POLLIN);
	EXPECT(rread(a, &byte, 1), 1);
	NEED(write(pipes[1], "x", 1) == 1);
	EXPECT(rpoll(fds, 3, -1), 1);
	EXPECT(fds[1].revents, POLLIN);
	FD_ZERO(&readable);
	FD_SET(a, &readable);
	FD_SET(pipes[0], &readable);
	EXPECT(rselect(FD_SETSIZE, &readable, NULL, NULL, &second), 1);
	EXPECT(FD_ISSET(pipes[0], &readable) && !FD_ISSET(a, &readable), 1);
	EXPECT(rclose(b), 0);
	EXPECT(rpoll(fds, 1, 10000), 1);
	EXPECT(fds[0].revents, POLLIN | POLLHUP);
	EXPECT(rclose(a), 0);

	NEED((a = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	EXPECT(rfcntl(a, F_SETFL, O_NONBLOCK), 0);
	REFUSED(rconnect(a, (void *)&server, sizeof(server)), EINPROGRESS);
	EXPECT(rpoll(&fds[2], 1, 10000), 1);
	NEED((b = raccept(listener, NULL, NULL)) >= 0);
	fds[0] = (struct pollfd){ a, POLLOUT };
	EXPECT(rpoll(fds, 1, 10000), 1);
	EXPECT(fds[0].revents, POLLOUT);
	EXPECT(rgetsockopt(a, SOL_SOCKET, SO_ERROR, &value, &length), 0);
	EXPECT(value, 0);
	EXPECT(rclose(a), 0);
	EXPECT(rclose(b), 0);

	nobody.sin_port = htons(1);
	NEED((a = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	REFUSED(rconnect(a, (void *)&nobody, sizeof(nobody)), ECONNREFUSED);
	EXPECT(rclose(a), 0);
	close(pipes[0]);
	close(pipes[1]);
}

/* What one side maps, the other writes to. */
static void mapped(void)
{
	static char memory[4096];
	char byte;
	int a, b;

	EXPECT(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &(int){ 2 }, 4), 0);
	make_pair(&a, &b);
	EXPECT(riomap(a, memory, sizeof(memory), PROT_WRITE, 0, 1000), 1000);
	EXPECT(rwrite(a, "m", 1), 1);
	EXPECT(rread(b, &byte, 1), 1);
	REFUSED(riowrite(b, "x", 1, 999, 0), EFAULT);
	EXPECT(riowrite(b, "directly", 8, 1100, 0), 8);
	EXPECT(rwrite(b, "w", 1), 1);
	EXPECT(rread(a, &byte, 1), 1);
	EXPECT(memcmp(memory + 100, "directly", 8), 0);
	EXPECT(riounmap(a, memory, sizeof(memory)), 0);
	REFUSED(riounmap(a, memory, sizeof(memory)), EINVAL);
	EXPECT(rclose(a), 0);
	EXPECT(rclose(b), 0);
}

static int datagram_socket(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int fd;

	*address = (struct sockaddr_in){ .sin_family = AF_INET };
	inet_pton(AF_INET, "127.0.0.1", &address->sin_addr);
	NEED((fd = rsocket(AF_INET, SOCK_DGRAM, 0)) >= 0);
	EXPECT(rbind(fd, (void *)address, sizeof(*address)), 0);
	EXPECT(rgetsockname(fd, (void *)address, &length), 0);
	return fd;
}

static void datagrams(void)
{
	static char big[4096];
	struct sockaddr_in first, second, from;
	socklen_t length = sizeof(from);
	struct pollfd ready;
	char buffer[64];
	int a = datagram_socket(&first), b = datagram_socket(&second);

	REFUSED(rrecv(a, buffer, 64, MSG_DONTWAIT), EAGAIN);
	REFUSED(rsend(a, "x", 1, 0), EDESTADDRREQ);
	REFUSED(rsendto(a, big, sizeof(big), 0, (void *)&second, sizeof(second)), EMSGSIZE);
	REFUSED(rlisten(a, 1), EOPNOTSUPP);
	/* The first by UDP, the later ones from queue pair to queue pair. */
	for (int i = 0; i < 20; i++) {
		int count = snprintf(buffer, sizeof(buffer), "number %d", i);

		EXPECT(rsendto(a, buffer, count, 0, (void *)&second, sizeof(second)), count);
		EXPECT(rrecvfrom(b, buffer, 64, 0, (void *)&from, &length), count);
		EXPECT(from.sin_port == first.sin_port && from.sin_addr.s_addr == first.sin_addr.s_addr, 1);
		EXPECT(rsendto(b, buffer, count, 0, (void *)&from, length), count);
		ready = (struct pollfd){ a, POLLIN };
		EXPECT(rpoll(&ready, 1, 10000), 1);
		EXPECT(rrecv(a, buffer, 6, MSG_PEEK), 6);
		EXPECT(rrecv(a, buffer, 64, 0), count);
		EXPECT(memcmp(buffer, "number ", 7), 0);
	}
	EXPECT(rconnect(a, (void *)&second, sizeof(second)), 0);
	EXPECT(rsend(a, "known", 5, 0), 5);
	EXPECT(rrecv(b, buffer, 3, 0), 3);
	REFUSED(rrecv(b, buffer, 64, MSG_DONTWAIT), EAGAIN);
	EXPECT(rclose(a), 0);
	EXPECT(rclose(b), 0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(120);
	errors();
	options();
	listening();
	large();
	vectors();
	ends();
	waiting();
	mapped();
	datagrams();
	EXPECT(rclose(listener), 0);
	printf("%d failures\n", failures);
	return failures != 0;
}
