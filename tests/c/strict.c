/*
 * What IBTA and the manual pages say where rxe does otherwise, so that there is nothing to compare with. Each line tells what
 * was expected if that is not what came.
 */
#include "common.h"
#include <arpa/inet.h>
#include <poll.h>

enum { SIZE = 8192 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;
static int gid_index;
static unsigned char *memory;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *from, *to;
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

static void connect_both(enum ibv_qp_type type, enum ibv_qp_state receiver)
{
	from = make_qp(pd, cq, NULL, type);
	to = make_qp(pd, cq, NULL, type);
	bring_to(from, IBV_QPS_RTS, gid_index, &gid, to->qp_num);
	bring_to(to, receiver, gid_index, &gid, from->qp_num);
}

static void destroy_both(void)
{
	struct ibv_wc wc;

	EXPECT(ibv_poll_cq(cq, 1, &wc), 0);
	EXPECT(ibv_destroy_qp(from), 0);
	EXPECT(ibv_destroy_qp(to), 0);
}

/* Waits for the completion of a request; others that come before stay for their own turn. */
static struct ibv_wc completion(uint64_t wr_id)
{
	static struct ibv_wc kept[64];
	static int count;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR, .wr_id = ~0ULL };

	for (int i = 0; i < count; i++)
		if (kept[i].wr_id == wr_id) {
			wc = kept[i];
			kept[i] = kept[--count];
			return wc;
		}
	while (count < COUNT(kept) && wait_completion(cq, &wc)) {
		if (wc.wr_id == wr_id)
			return wc;
		kept[count++] = wc;
	}
	EXPECT(wc.wr_id, wr_id);
	return wc;
}

static struct ibv_sge piece(int at, int length)
{
	struct ibv_sge sge = { (uintptr_t)memory + at, length, mr->lkey };
	return sge;
}

static void receive(struct ibv_qp *qp, int id, int length)
{
	struct ibv_sge sge = piece(SIZE / 2, length);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	EXPECT(ibv_post_recv(qp, &wr, &bad), 0);
}

static int post(enum ibv_wr_opcode opcode, int id, struct ibv_sge *sge, uint64_t remote)
{
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = mr->rkey;
	}
	return ibv_post_send(from, &wr, &bad);
}

static int try_move(enum ibv_qp_state state, void (*change)(struct ibv_qp_attr *))
{
	struct ibv_qp *qp = make_qp(pd, cq, NULL, IBV_QPT_RC);
	struct ibv_qp_attr attr = good_attr(state, gid_index, &gid, qp->qp_num);
	int result;

	bring_to(qp, state - 1, gid_index, &gid, qp->qp_num);
	change(&attr);
	result = ibv_modify_qp(qp, &attr, needed_mask(IBV_QPT_RC, state));
	EXPECT(ibv_destroy_qp(qp), 0);
	return result;
}

static void pkey_1(struct ibv_qp_attr *attr) { attr->pkey_index = 1; }
static void mtu_0(struct ibv_qp_attr *attr) { attr->path_mtu = 0; }
static void rnr_timer_32(struct ibv_qp_attr *attr) { attr->min_rnr_timer = 32; }
static void retry_8(struct ibv_qp_attr *attr) { attr->retry_cnt = 8; }
static void rnr_retry_8(struct ibv_qp_attr *attr) { attr->rnr_retry = 8; }
static void responders_255(struct ibv_qp_attr *attr) { attr->max_dest_rd_atomic = 255; }

static void values_out_of_range(void)
{
	EXPECT(try_move(IBV_QPS_INIT, pkey_1), EINVAL);
	EXPECT(try_move(IBV_QPS_RTR, mtu_0), EINVAL);
	EXPECT(try_move(IBV_QPS_RTR, rnr_timer_32), EINVAL);
	EXPECT(try_move(IBV_QPS_RTR, responders_255), EINVAL);
	EXPECT(try_move(IBV_QPS_RTS, retry_8), EINVAL);
	EXPECT(try_move(IBV_QPS_RTS, rnr_retry_8), EINVAL);
}

/* IBTA vol. 1, 11.6.2 */
static void statuses(void)
{
	struct ibv_sge sge;

	connect_both(IBV_QPT_RC, IBV_QPS_RTS);
	sge = piece(0, 8);
	sge.lkey ^= 0x5a5a5a00;
	EXPECT(post(IBV_WR_RDMA_WRITE, 1, &sge, (uintptr_t)memory + 64), 0);
	EXPECT(completion(1).status, IBV_WC_LOC_PROT_ERR);
	destroy_both();

	connect_both(IBV_QPT_RC, IBV_QPS_RTS);
	receive(to, 2, 4);
	sge = piece(0, 8);
	EXPECT(post(IBV_WR_SEND, 1, &sge, 0), 0);
	EXPECT(completion(1).status, IBV_WC_REM_INV_REQ_ERR);
	EXPECT(completion(2).status, IBV_WC_LOC_LEN_ERR);
	destroy_both();

	connect_both(IBV_QPT_RC, IBV_QPS_RTS);
	EXPECT(post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, (uintptr_t)memory + 68), 0);
	EXPECT(completion(1).status, IBV_WC_REM_INV_REQ_ERR);
	destroy_both();
}

/* IBTA vol. 1, 10.3.1: whatever is posted in the error state is flushed. */
static void flushed_late(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_sge sge = piece(0, 8);

	connect_both(IBV_QPT_RC, IBV_QPS_RTS);
	receive(from, 1, 64);
	EXPECT(ibv_modify_qp(from, &attr, IBV_QP_STATE), 0);
	EXPECT(completion(1).status, IBV_WC_WR_FLUSH_ERR);
	receive(from, 2, 64);
	EXPECT(completion(2).status, IBV_WC_WR_FLUSH_ERR);
	EXPECT(post(IBV_WR_SEND, 3, &sge, 0), 0);
	EXPECT(completion(3).status, IBV_WC_WR_FLUSH_ERR);
	destroy_both();
}

static void queried(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	connect_both(IBV_QPT_RC, IBV_QPS_RTR);
	EXPECT(ibv_query_qp(to, &attr, IBV_QP_CUR_STATE, &init), 0);
	EXPECT(attr.cur_qp_state, IBV_QPS_RTR);
	destroy_both();
}

static int readable(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	return poll(&pollfd, 1, 1000) == 1;
}

static void expect_event(enum ibv_event_type type, struct ibv_qp *qp)
{
	struct ibv_async_event event;

	EXPECT(readable(context->async_fd), 1);
	if (!readable(context->async_fd))
		return;
	EXPECT(ibv_get_async_event(context, &event), 0);
	EXPECT(event.event_type, type);
	EXPECT(event.element.qp == qp, 1);
	ibv_ack_async_event(&event);
}

/* IBTA vol. 1, 11.6.3 */
static void events(void)
{
	struct ibv_sge sge = piece(0, 8);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_send_wr bad_key = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { .rkey = 0x5a5a5a00 }
	}, *bad;

	connect_both(IBV_QPT_RC, IBV_QPS_RTR);
	receive(to, 2, 64);
	EXPECT(post(IBV_WR_SEND, 1, &sge, 0), 0);
	EXPECT(completion(1).status, IBV_WC_SUCCESS);
	EXPECT(completion(2).status, IBV_WC_SUCCESS);
	expect_event(IBV_EVENT_COMM_EST, to);

	EXPECT(ibv_modify_qp(from, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	expect_event(IBV_EVENT_SQ_DRAINED, from);
	destroy_both();

	connect_both(IBV_QPT_RC, IBV_QPS_RTS);
	EXPECT(ibv_post_send(from, &bad_key, &bad), 0);
	EXPECT(completion(1).status, IBV_WC_REM_ACCESS_ERR);
	expect_event(IBV_EVENT_QP_ACCESS_ERR, to);
	destroy_both();
}

/* A queue key with its high bit set stands for the sender's own (IBTA vol. 1, 10.2.5). */
static void own_queue_key(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 5 } };
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_sge sge = piece(0, 8);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	NEED(ah);
	from = make_qp(pd, cq, NULL, IBV_QPT_UD);
	to = make_qp(pd, cq, NULL, IBV_QPT_UD);
	bring_to(from, IBV_QPS_RTS, gid_index, &gid, 0);
	bring_to(to, IBV_QPS_RTS, gid_index, &gid, 0);
	receive(to, 2, SIZE / 2);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = to->qp_num;
	wr.wr.ud.remote_qkey = 0x80000000;
	EXPECT(ibv_post_send(from, &wr, &bad), 0);
	EXPECT(completion(1).status, IBV_WC_SUCCESS);
	wc = completion(2);
	EXPECT(wc.status, IBV_WC_SUCCESS);
	EXPECT(wc.byte_len, 48);
	EXPECT(memory[SIZE / 2 + 28], 5); /* the hop limit */
	wr.wr.ud.ah = NULL;
	EXPECT(ibv_post_send(from, &wr, &bad), EINVAL);
	EXPECT(bad == &wr, 1);
	EXPECT(ibv_destroy_ah(ah), 0);
	destroy_both();
}

/* A member hears its group, also from its own machine. */
static void multicast(void)
{
	static const union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2, [15] = 3 } };
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = group, .sgid_index = gid_index, .hop_limit = 1 } };
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_sge sge = piece(0, 8);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	NEED(ah);
	from = make_qp(pd, cq, NULL, IBV_QPT_UD);
	to = make_qp(pd, cq, NULL, IBV_QPT_UD);
	bring_to(from, IBV_QPS_RTS, gid_index, &gid, 0);
	bring_to(to, IBV_QPS_RTS, gid_index, &gid, 0);
	EXPECT(ibv_attach_mcast(to, &group, 0), 0);
	receive(to, 2, SIZE / 2);
	memset(memory, 0x77, 8);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	EXPECT(ibv_post_send(from, &wr, &bad), 0);
	EXPECT(completion(1).status, IBV_WC_SUCCESS);
	wc = completion(2);
	EXPECT(wc.status, IBV_WC_SUCCESS);
	EXPECT(wc.byte_len, 48);
	EXPECT(wc.src_qp, from->qp_num);
	EXPECT(memory[SIZE / 2 + 40], 0x77);
	EXPECT(ibv_detach_mcast(to, &group, 0), 0);
	EXPECT(ibv_destroy_ah(ah), 0);
	destroy_both();
}

/* ibv_rereg_mr(3), which rxe does not have */
static void changed_region(void)
{
	unsigned char *other = aligned_alloc(4096, 4096);
	struct ibv_pd *other_pd = ibv_alloc_pd(context);
	struct ibv_mr *region = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = piece(0, 8);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	NEED(other && other_pd && region);
	memset(other, 0, 4096);
	EXPECT(ibv_rereg_mr(region, 1 << 5, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EXPECT(errno, EINVAL);
	EXPECT(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096, 0), IBV_REREG_MR_ERR_INPUT);
	EXPECT(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EXPECT(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_PD, other_pd, NULL, 0, EVERY_ACCESS), IBV_REREG_MR_ERR_INPUT);
	EXPECT(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE), IBV_REREG_MR_ERR_CMD);
	EXPECT(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_PD, other_pd, NULL, 0, 0), 0);
	EXPECT(region->pd == other_pd, 1);
	EXPECT(ibv_dealloc_pd(other_pd), EBUSY);
	EXPECT(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, pd, other,
			    4096, EVERY_ACCESS), 0);
	EXPECT(ibv_dealloc_pd(other_pd), 0);
	EXPECT(region->addr == other && region->length == 4096, 1);
	connect_both(IBV_QPT_RC, IBV_QPS_RTS);
	memset(memory, 0x66, 8);
	wr.wr.rdma.remote_addr = (uintptr_t)other;
	wr.wr.rdma.rkey = region->rkey;
	EXPECT(ibv_post_send(from, &wr, &bad), 0);
	EXPECT(completion(1).status, IBV_WC_SUCCESS);
	EXPECT(other[7], 0x66);
	destroy_both();
	EXPECT(ibv_dereg_mr(region), 0);
	free(other);
}

/* IBTA vol. 1, 11.6.3.1: a completion queue that overruns is lost, and says so. */
static void overrun(void)
{
	struct ibv_cq *small = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_async_event event;
	struct ibv_sge sge = piece(0, 8);

	NEED(small);
	from = make_qp(pd, small, NULL, IBV_QPT_RC);
	to = make_qp(pd, cq, NULL, IBV_QPT_RC);
	bring_to(from, IBV_QPS_RTS, gid_index, &gid, to->qp_num);
	bring_to(to, IBV_QPS_RTS, gid_index, &gid, from->qp_num);
	for (int i = 0; i <= small->cqe && i < 16; i++)
		EXPECT(post(IBV_WR_RDMA_WRITE, 1, &sge, (uintptr_t)memory + 64), 0);
	EXPECT(small->cqe < 16, 1);
	do {
		EXPECT(readable(context->async_fd), 1);
		if (!readable(context->async_fd))
			break;
		EXPECT(ibv_get_async_event(context, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_CQ_ERR);
	EXPECT(event.event_type, IBV_EVENT_CQ_ERR);
	EXPECT(event.element.cq == small, 1);
	EXPECT(ibv_destroy_qp(from), 0);
	EXPECT(ibv_destroy_qp(to), 0);
	EXPECT(ibv_destroy_cq(small), 0);
}

/* Objects of one open device are nothing to another. */
static void foreign(int argc, char **argv)
{
	struct ibv_context *other = open_context(argc, argv);
	struct ibv_cq *other_cq = ibv_create_cq(other, 16, NULL, NULL, 0);
	struct ibv_pd *other_pd = ibv_alloc_pd(other);
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *other_srq = ibv_create_srq(other_pd, &srq_init);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(other);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = other_cq, .cap = { .max_send_wr = 1, .max_recv_wr = 1 }, .qp_type = IBV_QPT_RC
	};

	NEED(other_cq && other_pd && other_srq && channel);
	EXPECT(ibv_create_qp(pd, &init) == NULL, 1);
	EXPECT(errno, EINVAL);
	init.recv_cq = cq;
	init.srq = other_srq;
	EXPECT(ibv_create_qp(pd, &init) == NULL, 1);
	EXPECT(errno, EINVAL);
	EXPECT(ibv_create_cq(context, 16, NULL, channel, 0) == NULL, 1);
	EXPECT(errno, EINVAL);
	EXPECT(ibv_destroy_comp_channel(channel), 0);
	EXPECT(ibv_destroy_srq(other_srq), 0);
	EXPECT(ibv_destroy_cq(other_cq), 0);
	EXPECT(ibv_dealloc_pd(other_pd), 0);
	EXPECT(ibv_close_device(other), 0);
}

static void window_bounds(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.wr_id = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr, .addr = (uintptr_t)memory + 1024, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE },
	};
	struct ibv_sge sge = piece(0, 8);
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;

	NEED(mw);
	connect_both(IBV_QPT_RC, IBV_QPS_RTS);
	EXPECT(ibv_bind_mw(to, mw, &bind), 0);
	EXPECT(completion(1).status, IBV_WC_SUCCESS);
	wr.wr.rdma.rkey = mw->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)memory + 1024 + 60;
	EXPECT(ibv_post_send(from, &wr, &bad), 0);
	EXPECT(completion(2).status, IBV_WC_REM_ACCESS_ERR);
	destroy_both();
	EXPECT(ibv_dealloc_mw(mw), 0);
}

static struct ibv_qp *make_extended(struct ibv_cq_ex *cq_ex, enum ibv_qp_type type, uint64_t operations)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(cq_ex),
		.recv_cq = ibv_cq_ex_to_cq(cq_ex),
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 },
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = operations,
	};

	errno = 0;
	return ibv_create_qp_ex(context, &init);
}

static int start_poll(struct ibv_cq_ex *cq_ex)
{
	struct ibv_poll_cq_attr attr = {};
	int error = ENOENT;

	for (int i = 0; i < 30000 && (error = ibv_start_poll(cq_ex, &attr)) == ENOENT; i++)
		usleep(100);
	return error;
}

static void extended(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 64, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(context, &init);
	struct ibv_data_buf buffers[2] = { { memory, 3 }, { memory + 16, 2 } };
	struct ibv_sge list[2] = { piece(0, 3), piece(16, 2) };
	struct ibv_poll_cq_attr attr = {};
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_qp_ex *qp;
	uint64_t first, clock;

	NEED(cq_ex);
	EXPECT(make_extended(cq_ex, IBV_QPT_UC, IBV_QP_EX_WITH_SEND_WITH_INV) == NULL, 1);
	EXPECT(errno, EOPNOTSUPP);
	from = make_extended(cq_ex, IBV_QPT_UC, IBV_QP_EX_WITH_LOCAL_INV);
	NEED(from);
	EXPECT(ibv_destroy_qp(from), 0);
	from = make_extended(cq_ex, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
	to = make_extended(cq_ex, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
	NEED(from && to);
	bring_to(from, IBV_QPS_RTS, gid_index, &gid, to->qp_num);
	bring_to(to, IBV_QPS_RTS, gid_index, &gid, from->qp_num);
	qp = ibv_qp_to_qp_ex(from);
	memset(memory, 0, SIZE);
	for (int i = 0; i < 32; i++)
		memory[i] = i + 1;

	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 1;
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 1024);
	ibv_wr_set_inline_data_list(qp, 2, buffers);
	qp->wr_id = 2;
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 1032);
	ibv_wr_set_sge_list(qp, 2, list);
	qp->wr_id = 3;
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 1040);
	ibv_wr_set_inline_data(qp, memory, 4);
	EXPECT(ibv_wr_complete(qp), 0);
	usleep(300000); /* all three come */

	EXPECT(start_poll(cq_ex), 0);
	EXPECT(cq_ex->wr_id, 1);
	first = ibv_wc_read_completion_ts(cq_ex);
	EXPECT(ibv_next_poll(cq_ex), 0);
	EXPECT(cq_ex->wr_id, 2);
	EXPECT(cq_ex->status, IBV_WC_SUCCESS);
	EXPECT(ibv_next_poll(cq_ex), 0);
	EXPECT(cq_ex->wr_id, 3);
	EXPECT(ibv_wc_read_completion_ts(cq_ex) >= first, 1);
	EXPECT(ibv_next_poll(cq_ex), ENOENT);
	ibv_end_poll(cq_ex);
	EXPECT(memcmp(memory + 1024, "\1\2\3\x11\x12\0\0\0\1\2\3\x11\x12\0\0\0\1\2\3\4\0", 21), 0);
	EXPECT(ibv_query_rt_values_ex(context, &values), 0);
	clock = values.raw_clock.tv_sec * 1000000000ULL + values.raw_clock.tv_nsec;
	EXPECT(first < clock && clock - first < 10000000000ULL, 1);

	/* An empty next_poll gave nothing back: the queue can be polled again. */
	EXPECT(ibv_start_poll(cq_ex, &attr), ENOENT);
	ibv_wr_start(qp);
	qp->wr_id = 4;
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 1024);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 1);
	EXPECT(ibv_wr_complete(qp), 0);
	EXPECT(start_poll(cq_ex), 0);
	EXPECT(cq_ex->wr_id, 4);
	ibv_end_poll(cq_ex);
	EXPECT(ibv_start_poll(cq_ex, &attr), ENOENT);
	attr.comp_mask = 1;
	EXPECT(ibv_start_poll(cq_ex, &attr), EINVAL);

	EXPECT(ibv_destroy_qp(from), 0);
	EXPECT(ibv_destroy_qp(to), 0);
	EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0);
}

int main(int argc, char **argv)
{
	context = open_context(argc, argv);
	gid_index = ipv4_gid(context, &gid);
	NEED(pd = ibv_alloc_pd(context));
	NEED(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	NEED(memory = aligned_alloc(4096, SIZE));
	memset(memory, 0, SIZE);
	NEED(mr = ibv_reg_mr(pd, memory, SIZE, EVERY_ACCESS | IBV_ACCESS_MW_BIND));
	values_out_of_range();
	statuses();
	flushed_late();
	queried();
	events();
	own_queue_key();
	multicast();
	changed_region();
	overrun();
	foreign(argc, argv);
	window_bounds();
	extended();
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_destroy_cq(cq), 0);
	EXPECT(ibv_dealloc_pd(pd), 0);
	EXPECT(ibv_close_device(context), 0);
	printf("%d failures\n", failures);
	return failures != 0;
}
