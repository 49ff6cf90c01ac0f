/*
 * Connection management between ids of this process: every call, the events in their order with all they bring, and the
 * errors. Each line tells what was expected if that is not what came; on the genuine library over rxe none is printed.
 *
 *   cm [ADDRESS]        an address of this machine; 127.0.0.1 if none is given
 */
#define _GNU_SOURCE
#include "common.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

static struct rdma_event_channel *channel;
static const char *address = "127.0.0.1";
static int failures;

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

static struct sockaddr *at(const char *ip, int port)
{
	static struct sockaddr_storage storage[4];
	static int next;
	struct sockaddr_storage *here = &storage[next++ % COUNT(storage)];
	struct sockaddr_in *v4 = (void *)here;
	struct sockaddr_in6 *v6 = (void *)here;

	memset(here, 0, sizeof(*here));
	if (inet_pton(AF_INET, ip, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
	} else {
		NEED(inet_pton(AF_INET6, ip, &v6->sin6_addr) == 1);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
	}
	return (void *)here;
}

/* Takes the next event, which is to be of this type. */
static struct rdma_cm_event *next_event(int line, enum rdma_cm_event_type type, int status)
{
	struct pollfd readable = { channel->fd, POLLIN };
	struct rdma_cm_event *event;

	if (poll(&readable, 1, 20000) != 1) {
		printf("line %d: no %s\n", line, rdma_event_str(type));
		exit(1);
	}
	NEED(!rdma_get_cm_event(channel, &event));
	if (event->event != type || event->status != status) {
		printf("line %d: %s with status %d, not %s with %d\n", line, rdma_event_str(event->event),
		       event->status, rdma_event_str(type), status);
		failures++;
	}
	return event;
}

#define EVENT(type) next_event(__LINE__, RDMA_CM_EVENT_##type, 0)
#define FAILED_EVENT(type, status) next_event(__LINE__, RDMA_CM_EVENT_##type, status)

/* Takes and acknowledges it. */
#define PASS(type) EXPECT(rdma_ack_cm_event(EVENT(type)), 0)

static struct rdma_cm_id *make_id(enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	NEED(!rdma_create_id(channel, &id, NULL, space));
	return id;
}

static struct rdma_cm_id *listen_at(enum rdma_port_space space)
{
	struct rdma_cm_id *id = make_id(space);

	EXPECT(rdma_bind_addr(id, at(address, 0)), 0);
	EXPECT(rdma_listen(id, 8), 0);
	EXPECT(rdma_get_src_port(id) != 0, 1);
	return id;
}

/* An id that may connect to a port. */
static struct rdma_cm_id *routed_to(enum rdma_port_space space, int port)
{
	struct rdma_cm_id *id = make_id(space);

	EXPECT(rdma_resolve_addr(id, NULL, at(address, port), 2000), 0);
	PASS(ADDR_RESOLVED);
	EXPECT(rdma_resolve_route(id, 2000), 0);
	PASS(ROUTE_RESOLVED);
	return id;
}

static void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = id->qp_type,
		.sq_sig_all = 1,
	};

	EXPECT(rdma_create_qp(id, NULL, &attr), 0);
	EXPECT(id->qp && id->send_cq && id->recv_cq && id->send_cq_channel && id->recv_cq_channel, 1);
	EXPECT(attr.send_cq == id->send_cq && attr.recv_cq == id->recv_cq, 1);
}

static enum ibv_qp_state qp_state(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	NEED(!ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

static void drop(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	EXPECT(rdma_destroy_id(id), 0);
}

static void names(void)
{
	EXPECT(strcmp(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED"), 0);
	EXPECT(strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"), 0);
	EXPECT(strcmp(rdma_event_str(77), "UNKNOWN EVENT"), 0);
}

static void devices(void)
{
	struct ibv_context **list;
	struct ibv_device_attr attr;
	struct rdma_cm_id *id = make_id(RDMA_PS_TCP);
	int count = 0;

	NEED(list = rdma_get_devices(&count));
	EXPECT(count >= 1 && list[count] == NULL, 1);
	EXPECT(ibv_query_device(list[0], &attr), 0);
	EXPECT(rdma_bind_addr(id, at(address, 0)), 0);
	EXPECT(id->verbs == list[0] && id->port_num == 1 && id->pd, 1);
	rdma_free_devices(list);
	drop(id);
}

static void channels(void)
{
	struct rdma_event_channel *other;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id = make_id(RDMA_PS_TCP);
	struct pollfd readable = { channel->fd, POLLIN };

	NEED(other = rdma_create_event_channel());
	EXPECT(fcntl(other->fd, F_SETFL, O_NONBLOCK), 0);
	REFUSED(rdma_get_cm_event(other, &event), EAGAIN);
	EXPECT(poll(&readable, 1, 0), 0);
	EXPECT(rdma_resolve_addr(id, NULL, at(address, 1), 2000), 0);
	EXPECT(poll(&readable, 1, 0), 1);
	EXPECT(rdma_migrate_id(id, other), 0);
	EXPECT(id->channel == other, 1);
	EXPECT(poll(&readable, 1, 0), 0);
	EXPECT(rdma_get_cm_event(other, &event), 0);
	EXPECT(event->event == RDMA_CM_EVENT_ADDR_RESOLVED && event->id == id, 1);
	EXPECT(rdma_ack_cm_event(event), 0);
	drop(id);
	rdma_destroy_event_channel(other);
}

static void places(void)
{
	struct rdma_cm_id *id = make_id(RDMA_PS_TCP), *other = make_id(RDMA_PS_TCP);
	struct rdma_cm_id *odd;
	int port, yes = 1;

	REFUSED(rdma_create_id(channel, &odd, NULL, 0x1234), EINVAL);
	REFUSED(rdma_bind_addr(id, at("192.0.2.1", 0)), EADDRNOTAVAIL);
	EXPECT(rdma_bind_addr(id, at("0.0.0.0", 0)), 0);
	EXPECT(id->verbs == NULL, 1);
	port = ntohs(rdma_get_src_port(id));
	EXPECT(port != 0, 1);
	REFUSED(rdma_bind_addr(id, at("0.0.0.0", 0)), EINVAL);
	REFUSED(rdma_bind_addr(other, at("0.0.0.0", port)), EADDRNOTAVAIL);
	EXPECT(rdma_listen(id, 1), 0);
	REFUSED(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), EINVAL);
	REFUSED(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &yes, sizeof(yes)), EINVAL);
	REFUSED(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &yes, sizeof(yes)), EINVAL);
	REFUSED(rdma_set_option(other, 7, 0, &yes, sizeof(yes)), ENOSYS);
	EXPECT(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)), 0);
	drop(id);
	EXPECT(rdma_bind_addr(other, at("0.0.0.0", port)), 0);
	REFUSED(rdma_disconnect(other), EINVAL);
	REFUSED(rdma_reject(other, NULL, 0), EINVAL);
	drop(other);
}

static void routes(void)
{
	struct rdma_cm_id *id = make_id(RDMA_PS_TCP), *mixed = make_id(RDMA_PS_TCP);
	struct sockaddr_in *source = (void *)rdma_get_local_addr(id);
	uint8_t tos = 0x20;

	EXPECT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
	REFUSED(rdma_resolve_addr(mixed, at("::1", 0), at(address, 9), 2000), EINVAL);
	drop(mixed);
	EXPECT(rdma_resolve_addr(id, NULL, at(address, 9), 2000), 0);
	PASS(ADDR_RESOLVED);
	EXPECT(ntohs(rdma_get_dst_port(id)), 9);
	EXPECT(rdma_get_src_port(id) != 0, 1);
	EXPECT(source->sin_family == AF_INET && source->sin_addr.s_addr == inet_addr(address), 1);
	EXPECT(rdma_resolve_route(id, 2000), 0);
	PASS(ROUTE_RESOLVED);
	EXPECT(id->route.num_paths, 1);
	EXPECT(id->route.path_rec->traffic_class, 0x20);
	EXPECT(id->route.path_rec->pkey, 0xffff);
	EXPECT(memcmp(&id->route.path_rec->dgid, &id->route.addr.addr.ibaddr.dgid, 16), 0);
	REFUSED(rdma_resolve_route(id, 2000), EINVAL);
	drop(id);
}

/* Sends one message each way. */
static void talk(struct rdma_cm_id *a, struct rdma_cm_id *b)
{
	static char sent[64], received[64];
	struct ibv_mr *from, *to;
	struct ibv_wc wc;

	NEED(from = rdma_reg_msgs(a, sent, sizeof(sent)));
	NEED(to = rdma_reg_msgs(b, received, sizeof(received)));
	strcpy(sent, "over an id");
	memset(received, 0, sizeof(received));
	EXPECT(rdma_post_recv(b, NULL, received, sizeof(received), to), 0);
	EXPECT(rdma_post_send(a, NULL, sent, sizeof(sent), from, 0), 0);
	EXPECT(rdma_get_send_comp(a, &wc), 1);
	EXPECT(wc.status, IBV_WC_SUCCESS);
	EXPECT(rdma_get_recv_comp(b, &wc), 1);
	EXPECT(wc.status, IBV_WC_SUCCESS);
	EXPECT(strcmp(received, "over an id"), 0);
	rdma_dereg_mr(from);
	rdma_dereg_mr(to);
}

static void connections(void)
{
	struct rdma_cm_id *listener = listen_at(RDMA_PS_TCP), *child;
	struct rdma_cm_id *client = routed_to(RDMA_PS_TCP, ntohs(rdma_get_src_port(listener)));
	struct rdma_conn_param param = {
		.private_data = "hello", .private_data_len = 5, .responder_resources = 3, .initiator_depth = 5,
		.retry_count = 6, .rnr_retry_count = 4,
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct rdma_cm_event *event;
	uint8_t timeout = 21;

	listener->context = listener;
	REFUSED(rdma_connect(client, NULL), EINVAL);
	add_qp(client);
	EXPECT(qp_state(client), IBV_QPS_INIT);
	EXPECT(rdma_set_option(client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
	param.private_data_len = 57;
	REFUSED(rdma_connect(client, &param), EINVAL);
	param.private_data_len = 5;
	EXPECT(rdma_connect(client, &param), 0);

	event = EVENT(CONNECT_REQUEST);
	child = event->id;
	EXPECT(event->listen_id == listener && child != listener && child->context == listener, 1);
	EXPECT(event->param.conn.private_data_len, 56);
	EXPECT(memcmp(event->param.conn.private_data, "hello\0", 6), 0);
	EXPECT(event->param.conn.responder_resources, 5);
	EXPECT(event->param.conn.initiator_depth, 3);
	EXPECT(event->param.conn.retry_count, 6);
	EXPECT(event->param.conn.rnr_retry_count, 4);
	EXPECT(event->param.conn.qp_num, client->qp->qp_num);
	EXPECT(child->verbs == client->verbs && child->port_num == 1 && child->pd, 1);
	EXPECT(rdma_get_src_port(child), rdma_get_src_port(listener));
	EXPECT(rdma_get_dst_port(child), rdma_get_src_port(client));
	EXPECT(rdma_ack_cm_event(event), 0);

	add_qp(child);
	param = (struct rdma_conn_param){ .private_data = "welcome", .private_data_len = 7,
					  .responder_resources = 4, .initiator_depth = 2, .rnr_retry_count = 7 };
	EXPECT(rdma_accept(child, &param), 0);
	EXPECT(qp_state(child), IBV_QPS_RTS);
	event = EVENT(ESTABLISHED);
	EXPECT(event->id == client, 1);
	EXPECT(event->param.conn.private_data_len, 196);
	EXPECT(memcmp(event->param.conn.private_data, "welcome\0", 8), 0);
	EXPECT(event->param.conn.responder_resources, 2);
	EXPECT(event->param.conn.initiator_depth, 4);
	EXPECT(rdma_ack_cm_event(event), 0);
	EXPECT(qp_state(client), IBV_QPS_RTS);
	event = EVENT(ESTABLISHED);
	EXPECT(event->id == child, 1);
	EXPECT(rdma_ack_cm_event(event), 0);

	EXPECT(ibv_query_qp(client->qp, &attr, IBV_QP_STATE, &init), 0);
	EXPECT(attr.timeout, 21);
	EXPECT(attr.max_rd_atomic, 4);
	EXPECT(attr.max_dest_rd_atomic, 2);
	EXPECT(attr.retry_cnt, 6);
	EXPECT(ibv_query_qp(child->qp, &attr, IBV_QP_STATE, &init), 0);
	EXPECT(attr.max_rd_atomic, 2);
	EXPECT(attr.max_dest_rd_atomic, 4);
	EXPECT(attr.rnr_retry, 4);
	talk(client, child);
	talk(child, client);

	EXPECT(rdma_disconnect(client), 0);
	EXPECT(qp_state(client), IBV_QPS_ERR);
	PASS(DISCONNECTED);
	EXPECT(rdma_disconnect(child), 0);
	PASS(DISCONNECTED);
	drop(client);
	drop(child);
	drop(listener);
}

static void refusals(void)
{
	struct rdma_cm_id *listener = listen_at(RDMA_PS_TCP), *child;
	int port = ntohs(rdma_get_src_port(listener));
	struct rdma_cm_id *client = routed_to(RDMA_PS_TCP, port);
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_cm_event *event;

	add_qp(client);
	EXPECT(rdma_connect(client, &param), 0);
	event = EVENT(CONNECT_REQUEST);
	child = event->id;
	EXPECT(rdma_ack_cm_event(event), 0);
	EXPECT(rdma_reject(child, "go away", 7), 0);
	event = FAILED_EVENT(REJECTED, 28);
	EXPECT(event->id == client, 1);
	EXPECT(event->param.conn.private_data_len, 148);
	EXPECT(memcmp(event->param.conn.private_data, "go away", 7), 0);
	EXPECT(rdma_ack_cm_event(event), 0);
	EXPECT(qp_state(client), IBV_QPS_ERR);
	drop(child);
	drop(client);
	drop(listener);

	client = routed_to(RDMA_PS_TCP, port);
	add_qp(client);
	EXPECT(rdma_connect(client, &param), 0);
	EXPECT(rdma_ack_cm_event(FAILED_EVENT(REJECTED, 8)), 0);
	drop(client);
}

/* Who leaves a request unread or unanswered refuses it. */
static void neglect(void)
{
	struct rdma_cm_id *listener = listen_at(RDMA_PS_TCP);
	struct rdma_cm_id *client = routed_to(RDMA_PS_TCP, ntohs(rdma_get_src_port(listener)));
	struct rdma_conn_param param = { .retry_count = 7 };
	struct pollfd readable = { channel->fd, POLLIN };

	add_qp(client);
	EXPECT(rdma_connect(client, &param), 0);
	EXPECT(poll(&readable, 1, 20000), 1);
	drop(listener);
	EXPECT(rdma_ack_cm_event(FAILED_EVENT(REJECTED, 28)), 0);
	drop(client);
}

static void bring(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;

	EXPECT(rdma_init_qp_attr(id, &attr, &mask), 0);
	EXPECT(ibv_modify_qp(qp, &attr, mask), 0);
}

static struct ibv_qp *own_qp(struct rdma_cm_id *id, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp;

	NEED(qp = ibv_create_qp(id->pd, &attr));
	return qp;
}

/* Queue pairs that the program makes and moves itself. */
static void own_queue_pairs(void)
{
	struct rdma_cm_id *listener = listen_at(RDMA_PS_TCP), *child;
	struct rdma_cm_id *client = routed_to(RDMA_PS_TCP, ntohs(rdma_get_src_port(listener)));
	struct ibv_ece ece = { .vendor_id = 0x1234, .options = 0x55 };
	struct rdma_conn_param param = { .retry_count = 7, .initiator_depth = 1, .responder_resources = 1 };
	struct rdma_cm_event *event;
	struct ibv_qp *ours, *theirs;
	struct ibv_cq *cq;

	NEED(cq = ibv_create_cq(client->verbs, 16, NULL, NULL, 0));
	ours = own_qp(client, cq);
	param.qp_num = ours->qp_num;
	EXPECT(rdma_set_local_ece(client, &ece), 0);
	EXPECT(rdma_connect(client, &param), 0);
	event = EVENT(CONNECT_REQUEST);
	child = event->id;
	EXPECT(event->param.conn.qp_num, ours->qp_num);
	EXPECT(rdma_ack_cm_event(event), 0);
	EXPECT(rdma_get_remote_ece(child, &ece), 0);
	EXPECT(ece.vendor_id == 0x1234 && ece.options == 0x55 && ece.comp_mask == 0, 1);
	theirs = own_qp(child, cq);
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
		bring(child, theirs, state);
	param.qp_num = theirs->qp_num;
	EXPECT(rdma_accept(child, &param), 0);
	event = EVENT(CONNECT_RESPONSE);
	EXPECT(event->id == client && event->param.conn.qp_num == theirs->qp_num, 1);
	EXPECT(rdma_ack_cm_event(event), 0);
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
		bring(client, ours, state);
	EXPECT(rdma_establish(client), 0);
	event = EVENT(ESTABLISHED);
	EXPECT(event->id == child, 1);
	EXPECT(rdma_ack_cm_event(event), 0);
	EXPECT(rdma_disconnect(child), 0);
	PASS(DISCONNECTED);
	EXPECT(rdma_disconnect(client), 0);
	PASS(DISCONNECTED);
	NEED(!ibv_destroy_qp(ours) && !ibv_destroy_qp(theirs) && !ibv_destroy_cq(cq));
	drop(client);
	drop(child);
	drop(listener);
}

static void datagrams(void)
{
	struct rdma_cm_id *listener = listen_at(RDMA_PS_UDP), *child;
	int port = ntohs(rdma_get_src_port(listener));
	struct rdma_cm_id *client = routed_to(RDMA_PS_UDP, port);
	struct rdma_conn_param param = { .private_data = "who", .private_data_len = 3 };
	struct rdma_cm_event *event;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	static char memory[128];

	add_qp(client);
	EXPECT(qp_state(client), IBV_QPS_RTS);
	EXPECT(rdma_connect(client, &param), 0);
	event = EVENT(CONNECT_REQUEST);
	child = event->id;
	EXPECT(event->param.ud.private_data_len, 180);
	EXPECT(memcmp(event->param.ud.private_data, "who", 4), 0);
	EXPECT(rdma_ack_cm_event(event), 0);
	add_qp(child);
	NEED(mr = rdma_reg_msgs(child, memory, sizeof(memory)));
	EXPECT(rdma_post_recv(child, NULL, memory, sizeof(memory), mr), 0);
	param = (struct rdma_conn_param){ .qp_num = child->qp->qp_num };
	EXPECT(rdma_accept(child, &param), 0);
	event = EVENT(ESTABLISHED);
	EXPECT(event->id == client, 1);
	EXPECT(event->param.ud.qp_num, child->qp->qp_num);
	EXPECT(event->param.ud.qkey, RDMA_UDP_QKEY);
	NEED(ah = ibv_create_ah(client->pd, &event->param.ud.ah_attr));
	EXPECT(rdma_post_ud_send(client, NULL, memory + 64, 5, mr, 0, ah, event->param.ud.qp_num), 0);
	EXPECT(rdma_ack_cm_event(event), 0);
	EXPECT(rdma_get_recv_comp(child, &wc), 1);
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.byte_len == 45, 1);
	EXPECT(rdma_get_send_comp(client, &wc), 1);
	ibv_destroy_ah(ah);
	rdma_dereg_mr(mr);
	drop(client);
	drop(child);

	client = routed_to(RDMA_PS_UDP, port);
	add_qp(client);
	EXPECT(rdma_connect(client, &param), 0);
	event = EVENT(CONNECT_REQUEST);
	child = event->id;
	EXPECT(rdma_ack_cm_event(event), 0);
	EXPECT(rdma_reject(child, NULL, 0), 0);
	EXPECT(rdma_ack_cm_event(FAILED_EVENT(UNREACHABLE, 2)), 0);
	drop(client);
	drop(child);
	drop(listener);
}

static void groups(void)
{
	struct rdma_cm_id *id = make_id(RDMA_PS_UDP);
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS };
	struct rdma_cm_event *event;

	REFUSED(rdma_join_multicast(id, at("239.9.9.9", 0), NULL), EINVAL);
	EXPECT(rdma_bind_addr(id, at(address, 0)), 0);
	add_qp(id);
	EXPECT(rdma_join_multicast(id, at("239.9.9.9", 0), &attr), 0);
	event = EVENT(MULTICAST_JOIN);
	EXPECT(event->id == id && event->param.ud.private_data == &attr, 1);
	EXPECT(event->param.ud.qp_num, 0xffffff);
	EXPECT(event->param.ud.qkey, RDMA_UDP_QKEY);
	EXPECT(event->param.ud.ah_attr.is_global, 1);
	EXPECT(event->param.ud.ah_attr.grh.dgid.raw[12], 239);
	EXPECT(rdma_ack_cm_event(event), 0);
	REFUSED(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	EXPECT(rdma_leave_multicast(id, at("239.9.9.9", 0)), 0);
	REFUSED(rdma_leave_multicast(id, at("239.9.9.9", 0)), EADDRNOTAVAIL);
	drop(id);
}

static void *destroy_it(void *id)
{
	EXPECT(rdma_destroy_id(id), 0);
	return NULL;
}

/* An id stays until its events are acknowledged. */
static void unacknowledged(void)
{
	struct rdma_cm_id *id = make_id(RDMA_PS_TCP);
	struct rdma_cm_event *event;
	pthread_t thread;

	EXPECT(rdma_resolve_addr(id, NULL, at(address, 9), 2000), 0);
	event = EVENT(ADDR_RESOLVED);
	NEED(!pthread_create(&thread, NULL, destroy_it, id));
	usleep(50000);
	EXPECT(pthread_tryjoin_np(thread, NULL), EBUSY);
	EXPECT(rdma_ack_cm_event(event), 0);
	NEED(!pthread_join(thread, NULL));
}

static struct rdma_addrinfo *resolved(const char *service, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *info = NULL;

	EXPECT(rdma_getaddrinfo(address, service, &hints, &info), 0);
	NEED(info);
	EXPECT(info->ai_qp_type == IBV_QPT_RC && info->ai_port_space == RDMA_PS_TCP, 1);
	return info;
}

static struct ibv_qp_init_attr sync_attr = {
	.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }, .sq_sig_all = 1,
};

static void *call(void *service)
{
	struct rdma_addrinfo *info = resolved(service, 0);
	struct ibv_qp_init_attr attr = sync_attr;
	struct rdma_cm_id *id;

	EXPECT(info->ai_dst_len == sizeof(struct sockaddr_in) && info->ai_src_len == 0, 1);
	NEED(!rdma_create_ep(&id, info, NULL, &attr));
	rdma_freeaddrinfo(info);
	EXPECT(rdma_connect(id, NULL), 0);
	EXPECT(id->event && id->event->event == RDMA_CM_EVENT_ESTABLISHED, 1);
	EXPECT(rdma_disconnect(id), 0);
	EXPECT(id->event && id->event->event == RDMA_CM_EVENT_DISCONNECTED, 1);
	rdma_destroy_ep(id);
	return NULL;
}

/* Without channels, and in two threads. */
static void synchronous(void)
{
	struct rdma_cm_id *listener, *id;
	struct rdma_addrinfo *info;
	char service[16];
	pthread_t caller;

	REFUSED(rdma_getaddrinfo(NULL, NULL, NULL, &info), EINVAL);
	info = resolved("0", RAI_PASSIVE);
	EXPECT(info->ai_src_len == sizeof(struct sockaddr_in) && info->ai_dst_len == 0, 1);
	NEED(!rdma_create_ep(&listener, info, NULL, &sync_attr));
	rdma_freeaddrinfo(info);
	EXPECT(rdma_listen(listener, 0), 0);
	snprintf(service, sizeof(service), "%d", ntohs(rdma_get_src_port(listener)));
	NEED(!pthread_create(&caller, NULL, call, service));
	NEED(!rdma_get_request(listener, &id));
	EXPECT(id->qp && id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST, 1);
	EXPECT(rdma_accept(id, NULL), 0);
	EXPECT(id->event && id->event->event == RDMA_CM_EVENT_ESTABLISHED, 1);
	EXPECT(rdma_disconnect(id), 0);
	NEED(!pthread_join(caller, NULL));
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

int main(int argc, char **argv)
{
	address = argc > 1 ? argv[1] : address;
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(120);
	NEED(channel = rdma_create_event_channel());
	names();
	devices();
	channels();
	places();
	routes();
	connections();
	refusals();
	neglect();
	own_queue_pairs();
	datagrams();
	groups();
	unacknowledged();
	synchronous();
	rdma_destroy_event_channel(channel);
	printf("%d failures\n", failures);
	return failures != 0;
}
