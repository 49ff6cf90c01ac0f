/* Shared receive queues: posting to them, and queue pairs that take from one. */
#include "common.h"

enum { SIZE = 4096 };

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static unsigned char *memory;
static struct ibv_mr *mr;

static struct ibv_sge piece(int at, int length)
{
	struct ibv_sge sge = { (uintptr_t)memory + at, length, mr->lkey };
	return sge;
}

static void show(int count)
{
	struct ibv_wc wc;
	int sent = 0, received = 0, length = 0, id = 0;

	for (int i = 0; i < count; i++) {
		if (!wait_completion(cq, &wc)) {
			printf("only %d\n", i);
			return;
		}
		NEED(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV) {
			received++;
			length += wc.byte_len;
			id = id * 10 + wc.wr_id;
		} else {
			sent++;
		}
	}
	printf("sent %d, received %d, %d bytes, into %d\n", sent, received, length, id);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_context(argc, argv);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 2 } };
	struct ibv_srq *srq;
	struct ibv_qp *senders[2], *receivers[2];
	union ibv_gid gid;
	int gid_index = ipv4_gid(context, &gid), posted = 0, error = 0;
	struct ibv_sge sges[3];
	struct ibv_recv_wr first, second, *bad = NULL;

	NEED(pd = ibv_alloc_pd(context));
	NEED(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	NEED(memory = aligned_alloc(SIZE, SIZE));
	memset(memory, 0, SIZE);
	NEED(mr = ibv_reg_mr(pd, memory, SIZE, EVERY_ACCESS));
	NEED(srq = ibv_create_srq(pd, &init));
	for (int i = 0; i < 2; i++) {
		senders[i] = make_qp(pd, cq, NULL, IBV_QPT_RC);
		receivers[i] = make_qp(pd, cq, srq, IBV_QPT_RC);
		bring_to(senders[i], IBV_QPS_RTS, gid_index, &gid, receivers[i]->qp_num);
		bring_to(receivers[i], IBV_QPS_RTS, gid_index, &gid, senders[i]->qp_num);
	}
	for (int i = 0; i < 3; i++)
		sges[i] = piece(64 * i, 64);
	first = (struct ibv_recv_wr){ .wr_id = 1, .next = &second, .sg_list = sges, .num_sge = 2 };
	second = (struct ibv_recv_wr){ .wr_id = 2, .sg_list = sges, .num_sge = 1000 };
	printf("the second has too many pieces: %s, bad is the second %d\n", error_name(ibv_post_srq_recv(srq, &first, &bad)),
	       bad == &second);
	second.num_sge = 1;
	second.wr_id = 2;
	STATUS(ibv_post_srq_recv(srq, &second, &bad));
	second.wr_id = 3;
	STATUS(ibv_post_srq_recv(srq, &second, &bad));
	for (int i = 0; i < 3; i++) {
		struct ibv_sge sge = piece(1024, 16 * (i + 1));
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad_send;
		NEED(!ibv_post_send(senders[i & 1], &wr, &bad_send));
		show(2);
	}
	second.wr_id = 4;
	while (posted < 100000 && !(error = ibv_post_srq_recv(srq, &second, &bad)))
		posted++;
	printf("at least 8 %d, then %s\n", posted >= 8, error_name(error));
	for (int i = 0; i < 2; i++)
		NEED(!ibv_destroy_qp(senders[i]) && !ibv_destroy_qp(receivers[i]));
	STATUS(ibv_destroy_srq(srq));
	STATUS(ibv_destroy_cq(cq));
	return 0;
}
