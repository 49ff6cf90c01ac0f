/* Completion events and asynchronous events: when they come, when they do not, and what waits for their acknowledgement. */
#include "common.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_qp *from, *to;
static union ibv_gid gid;
static int gid_index;

static int readable(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	return poll(&pollfd, 1, 300) == 1;
}

static void message(int flags)
{
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = flags | IBV_SEND_SIGNALED }, *bad_send;
	struct ibv_wc wc;

	NEED(!ibv_post_recv(to, &recv, &bad_recv));
	NEED(!ibv_post_send(from, &send, &bad_send));
	NEED(wait_completion(send_cq, &wc) == 1);
}

static void take_event(void)
{
	struct ibv_cq *cq = NULL;
	void *cq_context = NULL;

	STATUS(ibv_get_cq_event(channel, &cq, &cq_context));
	printf("the queue %d, its context %d\n", cq == recv_cq, cq_context == &recv_cq);
}

static void drain(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(recv_cq, 1, &wc))
		;
}

static void *acknowledge_later(void *argument)
{
	usleep(200000);
	printf("acknowledged\n");
	fflush(stdout);
	ibv_ack_cq_events(recv_cq, *(int *)argument);
	return NULL;
}

static void completion_events(void)
{
	struct ibv_cq *cq;
	void *cq_context;
	pthread_t thread;
	int taken = 0;

	message(0);
	printf("not armed: %d\n", readable(channel->fd));
	drain();

	NEED(!ibv_req_notify_cq(recv_cq, 0));
	printf("armed: %d\n", readable(channel->fd));
	message(0);
	printf("a message: %d\n", readable(channel->fd));
	take_event();
	taken++;
	printf("taken: %d\n", readable(channel->fd));
	message(0);
	printf("once only: %d\n", readable(channel->fd));
	drain();

	NEED(!ibv_req_notify_cq(recv_cq, 1));
	message(0);
	printf("solicited only: %d\n", readable(channel->fd));
	message(IBV_SEND_SOLICITED);
	printf("a solicited one: %d\n", readable(channel->fd));
	take_event();
	taken++;
	drain();

	NEED(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	errno = 0;
	RESULT(ibv_get_cq_event(channel, &cq, &cq_context));
	printf("%s\n", error_name(errno));

	NEED(!ibv_destroy_qp(from));
	NEED(!ibv_destroy_qp(to));
	NEED(!pthread_create(&thread, NULL, acknowledge_later, &taken));
	STATUS(ibv_destroy_cq(recv_cq));
	NEED(!pthread_join(thread, NULL));
	STATUS(ibv_destroy_cq(send_cq));
	STATUS(ibv_destroy_comp_channel(channel));
}

static void take_async(struct ibv_srq *srq)
{
	struct ibv_async_event event;

	printf("async: %d\n", readable(context->async_fd));
	STATUS(ibv_get_async_event(context, &event));
	printf("%s, the queue %d\n", ibv_event_type_str(event.event_type), event.element.srq == srq);
	ibv_ack_async_event(&event);
}

static void limit_reached(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 3 }, now;
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad_send;
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_qp *a, *b;
	struct ibv_wc wc;

	NEED(cq && srq);
	a = make_qp(pd, cq, NULL, IBV_QPT_RC);
	b = make_qp(pd, cq, srq, IBV_QPT_RC);
	bring_to(a, IBV_QPS_RTS, gid_index, &gid, b->qp_num);
	bring_to(b, IBV_QPS_RTS, gid_index, &gid, a->qp_num);
	for (int i = 0; i < 4; i++)
		NEED(!ibv_post_srq_recv(srq, &recv, &bad_recv));
	printf("receives to a queue pair with a shared queue: %s\n", error_name(ibv_post_recv(b, &recv, &bad_recv)));
	NEED(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	for (int i = 0; i < 3; i++) {
		NEED(!ibv_post_send(a, &send, &bad_send));
		NEED(wait_completion(cq, &wc) == 1 && wait_completion(cq, &wc) == 1);
		if (i == 1)
			take_async(srq);
		else
			printf("after %d: %d\n", i + 1, readable(context->async_fd));
	}
	NEED(!ibv_query_srq(srq, &now));
	printf("limit afterwards: %d\n", now.srq_limit);
	NEED(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_srq(srq) && !ibv_destroy_cq(cq));
}

int main(int argc, char **argv)
{
	context = open_context(argc, argv);
	gid_index = ipv4_gid(context, &gid);
	NEED(pd = ibv_alloc_pd(context));
	NEED(channel = ibv_create_comp_channel(context));
	NEED(send_cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	NEED(recv_cq = ibv_create_cq(context, 64, &recv_cq, channel, 0));
	{
		struct ibv_qp_init_attr init = {
			.send_cq = send_cq,
			.recv_cq = recv_cq,
			.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
			.qp_type = IBV_QPT_RC,
		};
		NEED(from = ibv_create_qp(pd, &init));
		NEED(to = ibv_create_qp(pd, &init));
	}
	bring_to(from, IBV_QPS_RTS, gid_index, &gid, to->qp_num);
	bring_to(to, IBV_QPS_RTS, gid_index, &gid, from->qp_num);
	completion_events();
	limit_reached();
	return 0;
}
