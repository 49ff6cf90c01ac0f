/* What ibv_query_qp tells of every type of queue pair in every state; sizes and numbers are the device's. */
#include "common.h"

static const struct {
	enum ibv_qp_type type;
	const char *name;
} types[] = { { IBV_QPT_RC, "RC" }, { IBV_QPT_UC, "UC" }, { IBV_QPT_UD, "UD" } };

static union ibv_gid gid;
static int gid_index;

static void show_path(const char *name, const struct ibv_ah_attr *path)
{
	printf("  %s: global %d, port %d, dgid %d, sgid_index %d, hop limit %d, class %#x, flow label %#x\n", name,
	       path->is_global, path->port_num, !memcmp(&path->grh.dgid, &gid, sizeof(gid)), path->grh.sgid_index == gid_index,
	       path->grh.hop_limit, path->grh.traffic_class, path->grh.flow_label);
}

static void show(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int connected = qp->qp_type != IBV_QPT_UD, reliable = qp->qp_type == IBV_QPT_RC;

	memset(&attr, 0xee, sizeof(attr));
	NEED(!ibv_query_qp(qp, &attr, (IBV_QP_DEST_QPN << 1) - 1, &init));
	/* rxe leaves out the current state, and below the service level. */
	printf(" state %d, qp->state %d, migration %d\n", attr.qp_state, qp->state, attr.path_mig_state);
	if (attr.qp_state == IBV_QPS_RESET || attr.qp_state == IBV_QPS_ERR)
		return;
	printf("  pkey %d, port %d, access %#x, draining %d\n", attr.pkey_index, attr.port_num,
	       connected ? attr.qp_access_flags : 0, attr.sq_draining);
	if (!connected)
		printf("  qkey %#x\n", attr.qkey);
	if (attr.qp_state >= IBV_QPS_RTR && connected) {
		printf("  mtu %d, peer %d, rq_psn %#x\n", attr.path_mtu, attr.dest_qp_num == qp->qp_num, attr.rq_psn);
		show_path("path", &attr.ah_attr);
		if (reliable)
			printf("  responder: atomics and reads %d, rnr timer %d\n", attr.max_dest_rd_atomic, attr.min_rnr_timer);
	}
	if (attr.qp_state >= IBV_QPS_RTS) {
		printf("  sq_psn %#x\n", attr.sq_psn);
		if (reliable)
			printf("  requester: atomics and reads %d, timeout %d, retries %d, %d\n", attr.max_rd_atomic, attr.timeout,
			       attr.retry_cnt, attr.rnr_retry);
	}
}

static void move(struct ibv_qp *qp, enum ibv_qp_state to, int more)
{
	struct ibv_qp_attr attr = good_attr(to, gid_index, &gid, qp->qp_num);

	attr.ah_attr.grh.traffic_class = 0x48;
	attr.ah_attr.grh.flow_label = 0x12345;
	attr.ah_attr.sl = 3;
	attr.min_rnr_timer = 12;
	if (more)
		attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	printf("to %d: %s\n", to, error_name(ibv_modify_qp(qp, &attr, needed_mask(qp->qp_type, to) | more)));
	show(qp);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_context(argc, argv);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);

	NEED(pd && cq);
	gid_index = ipv4_gid(context, &gid);
	for (int i = 0; i < COUNT(types); i++) {
		struct ibv_qp *qp = make_qp(pd, cq, NULL, types[i].type);

		printf("%s\n", types[i].name);
		show(qp);
		STATUS(ibv_query_qp(qp, &(struct ibv_qp_attr){}, 1 << 24, &(struct ibv_qp_init_attr){}));
		STATUS(ibv_query_qp(qp, &(struct ibv_qp_attr){}, 1 << 25, &(struct ibv_qp_init_attr){}));
		move(qp, IBV_QPS_INIT, 0);
		move(qp, IBV_QPS_RTR, 0);
		move(qp, IBV_QPS_RTS, 0);
		if (types[i].type != IBV_QPT_UD)
			move(qp, IBV_QPS_RTS, IBV_QP_ACCESS_FLAGS | IBV_QP_CUR_STATE); /* from RTS: SQ_PSN may not change */
		move(qp, IBV_QPS_SQD, 0);
		usleep(10000);
		show(qp);
		move(qp, IBV_QPS_ERR, 0);
		move(qp, IBV_QPS_RESET, 0);
		move(qp, IBV_QPS_INIT, 0);
		NEED(!ibv_destroy_qp(qp));
	}
	return 0;
}
