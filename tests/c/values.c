/* Attributes out of their ranges, one at a time, where rxe looks at them. */
#include "common.h"

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static int gid_index;

/* Makes a queue pair, moves it up to the state before `to`, and tries the last move with changed attributes. */
#define TRY(type, to, change)                                                                                       \
	do {                                                                                                        \
		struct ibv_qp *qp = make_qp(pd, cq, NULL, type);                                                    \
		int mask = needed_mask(type, to);                                                                   \
		bring_to(qp, to - 1, gid_index, &gid, qp->qp_num);                                                  \
		struct ibv_qp_attr attr = good_attr(to, gid_index, &gid, qp->qp_num);                               \
		change;                                                                                             \
		printf("%s to %s, %s: %s\n", #type, #to, #change, error_name(ibv_modify_qp(qp, &attr, mask)));      \
		NEED(!ibv_destroy_qp(qp));                                                                          \
	} while (0)

static void creation(void)
{
	static const struct {
		const char *name;
		int send_wr, recv_wr, send_sge, recv_sge, inline_data;
	} sizes[] = {
		{ "no requests", 0, 0, 1, 1, 0 },
		{ "too many sends", 1 << 30, 1, 1, 1, 0 },
		{ "too many receives", 1, 1 << 30, 1, 1, 0 },
		{ "too many elements to send", 1, 1, 1 << 20, 1, 0 },
		{ "too many elements to receive", 1, 1, 1, 1 << 20, 0 },
		{ "too much inline", 1, 1, 1, 1, 1 << 30 },
	};
	struct ibv_qp *qp;

	for (int i = 0; i < COUNT(sizes); i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = cq,
			.recv_cq = cq,
			.qp_type = IBV_QPT_RC,
			.cap = { sizes[i].send_wr, sizes[i].recv_wr, sizes[i].send_sge, sizes[i].recv_sge,
				 sizes[i].inline_data },
		};
		errno = 0;
		qp = ibv_create_qp(pd, &init);
		printf("create_qp, %s: %s\n", sizes[i].name, qp ? "made" : error_name(errno));
		if (qp)
			NEED(!ibv_destroy_qp(qp));
	}
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_context(argc, argv);

	NEED(pd = ibv_alloc_pd(context));
	NEED(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	gid_index = ipv4_gid(context, &gid);
	creation();
	TRY(IBV_QPT_RC, IBV_QPS_INIT, attr.port_num = 0);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, attr.port_num = 2);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, attr.path_mtu = 6);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, attr.ah_attr.is_global = 0);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, attr.ah_attr.port_num = 0);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, attr.ah_attr.port_num = 2);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, attr.ah_attr.grh.sgid_index = last_gid(context));
	TRY(IBV_QPT_RC, IBV_QPS_RTR, attr.max_dest_rd_atomic = 0);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, attr.min_rnr_timer = 31);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, attr.rq_psn = 0xffffff);
	TRY(IBV_QPT_RC, IBV_QPS_RTS, attr.max_rd_atomic = 0);
	TRY(IBV_QPT_RC, IBV_QPS_RTS, attr.max_rd_atomic = 255);
	TRY(IBV_QPT_RC, IBV_QPS_RTS, attr.timeout = 31);
	TRY(IBV_QPT_RC, IBV_QPS_RTS, attr.timeout = 32);
	TRY(IBV_QPT_RC, IBV_QPS_RTS, (mask |= IBV_QP_RATE_LIMIT));
	TRY(IBV_QPT_RC, IBV_QPS_RTS, (mask |= 1 << 21));
	TRY(IBV_QPT_RC, IBV_QPS_RTS, attr.qp_state = IBV_QPS_UNKNOWN);
	TRY(IBV_QPT_RC, IBV_QPS_RTS, (mask |= IBV_QP_CUR_STATE, attr.cur_qp_state = IBV_QPS_RTS));
	TRY(IBV_QPT_RC, IBV_QPS_RTS, (mask |= IBV_QP_CUR_STATE, attr.cur_qp_state = IBV_QPS_UNKNOWN));
	TRY(IBV_QPT_UD, IBV_QPS_INIT, attr.qkey = 0x80000000);
	return 0;
}
