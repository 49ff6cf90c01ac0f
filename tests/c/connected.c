/*
 * Every operation of connected queue pairs, and every way in which one fails, between two queue pairs of this process.
 * Prints each completion and what became of the memory.
 */
#include "common.h"
#include <arpa/inet.h>

enum { SIZE = 4096 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;
static int gid_index;

/* Two ends of a connection. */
static struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char *memory;
} a, b;

static void open_side(struct side *side, enum ibv_qp_type type)
{
	NEED(side->cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	NEED(side->memory = aligned_alloc(SIZE, SIZE));
	memset(side->memory, 0, SIZE);
	NEED(side->mr = ibv_reg_mr(pd, side->memory, SIZE, EVERY_ACCESS));
	side->qp = make_qp(pd, side->cq, NULL, type);
}

static void connect_sides(enum ibv_qp_type type)
{
	open_side(&a, type);
	open_side(&b, type);
	bring_to(a.qp, IBV_QPS_RTS, gid_index, &gid, b.qp->qp_num);
	bring_to(b.qp, IBV_QPS_RTS, gid_index, &gid, a.qp->qp_num);
}

static void close_side(struct side *side)
{
	NEED(!ibv_destroy_qp(side->qp));
	NEED(!ibv_destroy_cq(side->cq));
	NEED(!ibv_dereg_mr(side->mr));
	free(side->memory);
}

static void close_sides(void)
{
	close_side(&a);
	close_side(&b);
}

static void show(const char *name, struct side *side)
{
	struct ibv_wc wc;

	if (!wait_completion(side->cq, &wc)) {
		printf("  %s: none\n", name);
		return;
	}
	printf("  %s: wr_id %d, %s", name, (int)wc.wr_id, ibv_wc_status_str(wc.status));
	if (wc.status == IBV_WC_SUCCESS) {
		printf(", opcode %d", wc.opcode);
		if (wc.opcode & IBV_WC_RECV) {
			/* rxe claims a GRH where none is. */
			printf(", flags %d, length %d", wc.wc_flags & ~IBV_WC_GRH, wc.byte_len);
			if (wc.wc_flags & IBV_WC_WITH_IMM)
				printf(", immediate %#x", ntohl(wc.imm_data));
		}
	}
	printf(", qp %d\n", wc.qp_num == side->qp->qp_num);
}

static void nothing_more(const char *name, struct side *side)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(side->cq, 1, &wc);

	if (count)
		printf("  %s: %d more, wr_id %d\n", name, count, (int)wc.wr_id);
}

/* For failures whose status rxe gets wrong. */
static void show_failed(const char *name, struct side *side)
{
	struct ibv_wc wc;

	if (!wait_completion(side->cq, &wc))
		printf("  %s: none\n", name);
	else
		printf("  %s: wr_id %d, failed %d\n", name, (int)wc.wr_id, wc.status != IBV_WC_SUCCESS);
}

static void show_state(const char *name, struct side *side)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	NEED(!ibv_query_qp(side->qp, &attr, IBV_QP_STATE, &init));
	printf("  %s: state %d\n", name, attr.qp_state);
}

static void show_memory(const char *name, struct side *side, int at, int length)
{
	printf("  %s:", name);
	for (int i = at; i < at + length; i++)
		printf(" %02x", side->memory[i]);
	printf("\n");
}

static struct ibv_sge piece(struct side *side, int at, int length)
{
	struct ibv_sge sge = { (uintptr_t)side->memory + at, length, side->mr->lkey };
	return sge;
}

static void receive(struct side *side, int id, int at, int length)
{
	struct ibv_sge sge = piece(side, at, length);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	NEED(!ibv_post_recv(side->qp, &wr, &bad));
}

/* A request of `a` on its first bytes, to the 64th byte of `b`. */
static struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge, int flags)
{
	struct ibv_send_wr wr = { .wr_id = opcode + 100, .sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = flags };

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)b.memory + 64;
		wr.wr.atomic.rkey = b.mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)b.memory + 64;
		wr.wr.rdma.rkey = b.mr->rkey;
	}
	return wr;
}

static int post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(a.qp, wr, &bad);
}

static void operations(enum ibv_qp_type type)
{
	struct ibv_sge sge, two[2];
	struct ibv_send_wr wr, second;
	uint64_t word = 40;

	printf("operations of type %d\n", type);
	connect_sides(type);
	for (int i = 0; i < 64; i++)
		a.memory[i] = i;
	sge = piece(&a, 0, 8);

	printf(" send\n");
	receive(&b, 1, 0, 64);
	wr = request(IBV_WR_SEND, &sge, IBV_SEND_SIGNALED);
	STATUS(post(&wr));
	show("sender", &a);
	show("receiver", &b);
	show_memory("receiver", &b, 0, 9);

	printf(" send with immediate, from two pieces\n");
	two[0] = piece(&a, 8, 3);
	two[1] = piece(&a, 32, 2);
	receive(&b, 2, 0, 64);
	wr = request(IBV_WR_SEND_WITH_IMM, two, IBV_SEND_SIGNALED);
	wr.num_sge = 2;
	wr.imm_data = htonl(0x1234);
	STATUS(post(&wr));
	show("sender", &a);
	show("receiver", &b);
	show_memory("receiver", &b, 0, 6);

	printf(" send of nothing\n");
	receive(&b, 3, 0, 64);
	wr = request(IBV_WR_SEND, NULL, IBV_SEND_SIGNALED);
	wr.num_sge = 0;
	STATUS(post(&wr));
	show("sender", &a);
	show("receiver", &b);

	printf(" inline, changed after it was posted\n");
	receive(&b, 4, 0, 64);
	wr = request(IBV_WR_SEND, &sge, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	STATUS(post(&wr));
	memset(a.memory, 0xee, 8);
	show("sender", &a);
	show("receiver", &b);
	show_memory("receiver", &b, 0, 8);

	printf(" write\n");
	wr = request(IBV_WR_RDMA_WRITE, &sge, IBV_SEND_SIGNALED);
	STATUS(post(&wr));
	show("sender", &a);
	printf(" write with immediate\n");
	receive(&b, 5, 0, 64);
	wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, IBV_SEND_SIGNALED);
	wr.imm_data = htonl(7);
	STATUS(post(&wr));
	show("sender", &a);
	show("receiver", &b);
	show_memory("receiver", &b, 63, 10);

	printf(" two requests, the first unsignaled\n");
	wr = request(IBV_WR_RDMA_WRITE, &sge, 0);
	second = request(IBV_WR_RDMA_WRITE, &sge, IBV_SEND_SIGNALED);
	second.wr_id = 200;
	wr.next = &second;
	STATUS(post(&wr));
	show("sender", &a);
	nothing_more("sender", &a);

	if (type == IBV_QPT_RC) {
		printf(" read\n");
		memset(b.memory + 64, 0x77, 8);
		wr = request(IBV_WR_RDMA_READ, &sge, IBV_SEND_SIGNALED);
		STATUS(post(&wr));
		show("sender", &a);
		show_memory("sender", &a, 0, 9);

		printf(" fetch and add\n");
		memcpy(b.memory + 64, &word, 8);
		wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, IBV_SEND_SIGNALED);
		wr.wr.atomic.compare_add = 2;
		STATUS(post(&wr));
		show("sender", &a);
		show_memory("sender", &a, 0, 8);
		show_memory("receiver", &b, 64, 8);

		for (int i = 0; i < 2; i++) {
			printf(" compare and swap\n");
			wr = request(IBV_WR_ATOMIC_CMP_AND_SWP, &sge, IBV_SEND_SIGNALED);
			wr.wr.atomic.compare_add = 42;
			wr.wr.atomic.swap = 99;
			STATUS(post(&wr));
			show("sender", &a);
			show_memory("sender", &a, 0, 8);
			show_memory("receiver", &b, 64, 8);
		}
	}
	close_sides();
}

enum detail { STATUSES, FAILURES, FAILURES_OF_BOTH };

/* A failure: what was wrong, how both sides end, and that later requests are flushed. */
static void failure(const char *name, struct ibv_send_wr *wr, enum detail detail)
{
	struct ibv_sge sge = piece(&a, 0, 8);
	struct ibv_send_wr later = request(IBV_WR_RDMA_WRITE, &sge, IBV_SEND_SIGNALED);
	int error;

	printf(" %s\n", name);
	error = post(wr);
	printf("  post: %s\n", error_name(error));
	if (!error) {
		if (detail == STATUSES)
			show("sender", &a);
		else
			show_failed("sender", &a);
		if (detail == FAILURES_OF_BOTH)
			show_failed("receiver", &b);
		show_state("sender", &a);
		show_state("receiver", &b);
		later.wr_id = 300;
		printf("  post later: %s\n", error_name(post(&later)));
		show("sender", &a);
	}
	nothing_more("sender", &a);
	nothing_more("receiver", &b);
	close_sides();
}

static void failures(void)
{
	struct ibv_sge sge, many[256];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_send_wr wr;

	printf("failures\n");
	connect_sides(IBV_QPT_RC);
	sge = piece(&a, 0, 8);
	sge.lkey ^= 0x5a5a5a00;
	wr = request(IBV_WR_RDMA_WRITE, &sge, IBV_SEND_SIGNALED);
	failure("wrong local key", &wr, FAILURES);

	connect_sides(IBV_QPT_RC);
	sge = piece(&a, SIZE - 4, 8);
	wr = request(IBV_WR_RDMA_WRITE, &sge, IBV_SEND_SIGNALED);
	failure("beyond the local region", &wr, STATUSES);

	connect_sides(IBV_QPT_RC);
	sge = piece(&a, 0, 8);
	wr = request(IBV_WR_RDMA_WRITE, &sge, IBV_SEND_SIGNALED);
	wr.wr.rdma.rkey ^= 0x5a5a5a00;
	failure("wrong remote key", &wr, STATUSES);

	connect_sides(IBV_QPT_RC);
	sge = piece(&a, 0, 8);
	wr = request(IBV_WR_RDMA_WRITE, &sge, IBV_SEND_SIGNALED);
	wr.wr.rdma.remote_addr = (uintptr_t)b.memory + SIZE - 4;
	failure("beyond the remote region", &wr, STATUSES);

	connect_sides(IBV_QPT_RC);
	sge = piece(&a, 0, 8);
	wr = request(IBV_WR_RDMA_READ, &sge, IBV_SEND_SIGNALED);
	wr.wr.rdma.rkey ^= 0x5a5a5a00;
	failure("read with a wrong remote key", &wr, STATUSES);

	connect_sides(IBV_QPT_RC);
	receive(&b, 1, 0, 4);
	sge = piece(&a, 0, 8);
	wr = request(IBV_WR_SEND, &sge, IBV_SEND_SIGNALED);
	failure("receive too short", &wr, FAILURES_OF_BOTH);

	connect_sides(IBV_QPT_RC);
	for (int i = 0; i < COUNT(many); i++)
		many[i] = piece(&a, 0, 4);
	NEED(!ibv_query_qp(a.qp, &attr, IBV_QP_CAP, &init));
	NEED(init.cap.max_send_sge < COUNT(many));
	wr = request(IBV_WR_SEND, many, IBV_SEND_SIGNALED);
	wr.num_sge = init.cap.max_send_sge + 1;
	failure("too many pieces", &wr, STATUSES);

	connect_sides(IBV_QPT_RC);
	sge = piece(&a, 0, SIZE);
	wr = request(IBV_WR_SEND, &sge, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	failure("too much inline", &wr, STATUSES);
}

static void flush(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	printf("flush\n");
	connect_sides(IBV_QPT_RC);
	receive(&a, 1, 0, 64);
	receive(&a, 2, 0, 64);
	NEED(!ibv_modify_qp(a.qp, &attr, IBV_QP_STATE));
	show("receives", &a);
	show("receives", &a);
	sge = piece(&a, 0, 8);
	wr = request(IBV_WR_SEND, &sge, 0);
	STATUS(post(&wr));
	show("sends", &a);
	close_sides();
}

static void states(void)
{
	static const enum ibv_qp_state all[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR };
	struct ibv_recv_wr recv = { .num_sge = 0 }, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;

	printf("posting in every state\n");
	for (int i = 0; i < COUNT(all); i++) {
		struct ibv_qp_attr attr = { .qp_state = all[i] };
		open_side(&a, IBV_QPT_RC);
		bring_to(a.qp, all[i] == IBV_QPS_ERR ? IBV_QPS_INIT : all[i], gid_index, &gid, a.qp->qp_num);
		if (all[i] == IBV_QPS_ERR)
			NEED(!ibv_modify_qp(a.qp, &attr, IBV_QP_STATE));
		printf(" state %d: receive %s\n", all[i], error_name(ibv_post_recv(a.qp, &recv, &bad_recv)));
		if (all[i] != IBV_QPS_RTS)
			printf(" state %d: send %s\n", all[i], error_name(ibv_post_send(a.qp, &send, &bad_send)));
		close_side(&a);
	}
}

static void full_queues(void)
{
	struct ibv_recv_wr recv = { .num_sge = 0 }, *bad_recv;
	int posted = 0, error = 0;

	printf("full receive queue\n");
	open_side(&a, IBV_QPT_RC);
	bring_to(a.qp, IBV_QPS_INIT, gid_index, &gid, a.qp->qp_num);
	recv.num_sge = 1 << 20;
	printf(" too many pieces: %s\n", error_name(ibv_post_recv(a.qp, &recv, &bad_recv)));
	recv.num_sge = 0;
	while (posted < 100000 && !(error = ibv_post_recv(a.qp, &recv, &bad_recv)))
		posted++;
	printf(" at least 16 %d, then %s, bad %d\n", posted >= 16, error_name(error), bad_recv == &recv);
	close_side(&a);
}

int main(int argc, char **argv)
{
	context = open_context(argc, argv);
	NEED(pd = ibv_alloc_pd(context));
	gid_index = ipv4_gid(context, &gid);
	operations(IBV_QPT_RC);
	operations(IBV_QPT_UC);
	failures();
	flush();
	states();
	full_queues();
	STATUS(ibv_dealloc_pd(pd));
	return 0;
}
