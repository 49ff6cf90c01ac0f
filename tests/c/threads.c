/*
 * Many threads on the same objects: every verb may be called from any thread at any time. Senders post to one queue pair, and
 * a thread sleeps on the completion channel and takes what came; others make and destroy objects meanwhile.
 */
#include "common.h"
#include <pthread.h>

enum { THREADS = 4, EACH = 50, SIZE = 4096 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *from, *to;
static struct ibv_mr *mr;
static unsigned char *memory;
static int seen[THREADS * EACH], bad_status;

static void *send_all(void *argument)
{
	int thread = (int)(intptr_t)argument;

	for (int i = 0; i < EACH; i++) {
		struct ibv_sge sge = { (uintptr_t)memory, 8, mr->lkey };
		struct ibv_send_wr wr = {
			.wr_id = thread * EACH + i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = (uintptr_t)memory + 64, .rkey = mr->rkey },
		}, *bad;
		int error;

		while ((error = ibv_post_send(from, &wr, &bad)) == ENOMEM)
			usleep(100);
		NEED(!error);
	}
	return NULL;
}

static void *take_all(void *argument)
{
	int taken = 0;

	(void)argument;
	while (taken < THREADS * EACH) {
		struct ibv_cq *told;
		void *cq_context;
		struct ibv_wc wc[8];
		int count;

		NEED(!ibv_get_cq_event(channel, &told, &cq_context));
		NEED(told == cq);
		ibv_ack_cq_events(told, 1);
		NEED(!ibv_req_notify_cq(cq, 0));
		while ((count = ibv_poll_cq(cq, COUNT(wc), wc)) > 0)
			for (int i = 0; i < count; i++, taken++) {
				seen[wc[i].wr_id]++;
				bad_status += wc[i].status != IBV_WC_SUCCESS;
			}
		NEED(count == 0);
	}
	return NULL;
}

static void *make_and_destroy(void *argument)
{
	(void)argument;
	for (int i = 0; i < EACH; i++) {
		struct ibv_pd *own = ibv_alloc_pd(context);
		struct ibv_cq *queue = ibv_create_cq(context, 8, NULL, channel, 0);
		struct ibv_mr *region;
		struct ibv_qp *qp;

		NEED(own && queue);
		NEED(region = ibv_reg_mr(own, memory, SIZE, EVERY_ACCESS));
		qp = make_qp(own, queue, NULL, IBV_QPT_RC);
		NEED(!ibv_destroy_qp(qp) && !ibv_dereg_mr(region) && !ibv_destroy_cq(queue) && !ibv_dealloc_pd(own));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t senders[THREADS], taker, maker;
	union ibv_gid gid;
	int gid_index, once = 0;

	context = open_context(argc, argv);
	gid_index = ipv4_gid(context, &gid);
	NEED(pd = ibv_alloc_pd(context));
	NEED(channel = ibv_create_comp_channel(context));
	NEED(cq = ibv_create_cq(context, 256, NULL, channel, 0));
	NEED(memory = aligned_alloc(SIZE, SIZE));
	memset(memory, 0, SIZE);
	NEED(mr = ibv_reg_mr(pd, memory, SIZE, EVERY_ACCESS));
	from = make_qp(pd, cq, NULL, IBV_QPT_RC);
	to = make_qp(pd, cq, NULL, IBV_QPT_RC);
	bring_to(from, IBV_QPS_RTS, gid_index, &gid, to->qp_num);
	bring_to(to, IBV_QPS_RTS, gid_index, &gid, from->qp_num);
	NEED(!ibv_req_notify_cq(cq, 0));
	NEED(!pthread_create(&taker, NULL, take_all, NULL));
	NEED(!pthread_create(&maker, NULL, make_and_destroy, NULL));
	for (int i = 0; i < THREADS; i++)
		NEED(!pthread_create(&senders[i], NULL, send_all, (void *)(intptr_t)i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(senders[i], NULL);
	pthread_join(taker, NULL);
	pthread_join(maker, NULL);
	for (int i = 0; i < COUNT(seen); i++)
		once += seen[i] == 1;
	printf("%d completed, each once: %d, failed: %d\n", COUNT(seen), once == COUNT(seen), bad_status);
	STATUS(ibv_destroy_qp(from));
	STATUS(ibv_destroy_qp(to));
	STATUS(ibv_destroy_cq(cq));
	STATUS(ibv_destroy_comp_channel(channel));
	STATUS(ibv_dereg_mr(mr));
	STATUS(ibv_dealloc_pd(pd));
	STATUS(ibv_close_device(context));
	return 0;
}
