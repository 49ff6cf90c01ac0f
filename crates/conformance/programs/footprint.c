/*
 * What queue pairs and memory regions cost a process.
 *
 *   footprint QUEUE_PAIRS MEGABYTES [DEVICE]
 *
 * Prints "resident KIB" (all that the process holds once it has that many reliable queue pairs of 128 sends and receives)
 * and "register MICROSECONDS" and "copied KIB" (what registering a region of that size takes, and adds to the process).
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define NEED(condition)                                                                               \
	do {                                                                                          \
		if (!(condition)) {                                                                   \
			fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, strerror(errno)); \
			exit(1);                                                                      \
		}                                                                                     \
	} while (0)

static long resident_kib(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	long kib = -1;

	NEED(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(status);
	NEED(kib > 0);
	return kib;
}

static double microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	NEED(argc >= 3 && list);
	for (int i = 0; list[i] && !context; i++)
		if (argc < 4 || !strcmp(argv[3], ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	NEED(context);

	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4096, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	NEED(pd && cq);
	for (int i = atoi(argv[1]); i > 0; i--)
		NEED(ibv_create_qp(pd, &init));
	printf("resident %ld\n", resident_kib());

	size_t size = (size_t)atoi(argv[2]) << 20;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(memory != MAP_FAILED);
	long before = resident_kib();
	double start = microseconds();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	double stop = microseconds();
	NEED(mr);
	printf("register %.1f\ncopied %ld\n", stop - start, resident_kib() - before);
	return 0;
}
