/*
 * Forks: a program that forks goes on with the device it had opened, and so does its child with one of its own. The memory of
 * the parent's regions stays what the parent wrote.
 */
#include "common.h"
#include <sys/wait.h>

enum { SIZE = 4096 };

/* Writes from one half of a page to the other through a connection of its own; tells whether the bytes came. */
static int exchange(int argc, char **argv, struct ibv_context *context, unsigned char value)
{
	struct ibv_context *own = context ? context : open_context(argc, argv);
	struct ibv_pd *pd = ibv_alloc_pd(own);
	struct ibv_cq *cq = ibv_create_cq(own, 16, NULL, NULL, 0);
	unsigned char *memory = aligned_alloc(SIZE, SIZE);
	union ibv_gid gid;
	int gid_index = ipv4_gid(own, &gid), came;
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	struct ibv_wc wc = {};

	NEED(pd && cq && memory);
	memset(memory, 0, SIZE);
	memset(memory, value, 64);
	NEED(mr = ibv_reg_mr(pd, memory, SIZE, EVERY_ACCESS));
	a = make_qp(pd, cq, NULL, IBV_QPT_RC);
	b = make_qp(pd, cq, NULL, IBV_QPT_RC);
	bring_to(a, IBV_QPS_RTS, gid_index, &gid, b->qp_num);
	bring_to(b, IBV_QPS_RTS, gid_index, &gid, a->qp_num);
	{
		struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = (uintptr_t)memory + SIZE / 2, .rkey = mr->rkey },
		}, *bad;
		NEED(!ibv_post_send(a, &wr, &bad));
	}
	NEED(wait_completion(cq, &wc) == 1);
	came = wc.status == IBV_WC_SUCCESS && memory[SIZE / 2] == value && memory[SIZE / 2 + 63] == value;
	NEED(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
	if (!context)
		NEED(!ibv_close_device(own));
	free(memory);
	return came;
}

int main(int argc, char **argv)
{
	struct ibv_context *context;
	int status;
	pid_t child;

	NEED(!ibv_fork_init());
	context = open_context(argc, argv);
	printf("before: %d\n", exchange(argc, argv, context, 0x11));
	fflush(stdout);
	NEED((child = fork()) >= 0);
	if (!child) {
		printf("child with a device of its own: %d\n", exchange(argc, argv, NULL, 0x22));
		fflush(stdout);
		_exit(7);
	}
	NEED(waitpid(child, &status, 0) == child);
	printf("the child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	printf("parent: %d\n", exchange(argc, argv, context, 0x33));
	STATUS(ibv_close_device(context));
	return 0;
}
