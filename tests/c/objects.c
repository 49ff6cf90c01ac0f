/* Objects made and destroyed, in the right order and in wrong ones, with right sizes and wrong ones. */
#include "common.h"

static char buffer[8192];

static void protection(struct ibv_context *context)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	MADE(pd, ibv_alloc_pd(context));
	printf("pd->context is the context: %d\n", pd->context == context);
	MADE(mr, ibv_reg_mr(pd, buffer, sizeof(buffer), 0));
	printf("mr: context %d, pd %d, addr %d, length %zu\n", mr->context == context, mr->pd == pd,
	       mr->addr == buffer, mr->length);
	STATUS(ibv_dealloc_pd(pd));
	STATUS(ibv_dereg_mr(mr));
	MADE(mr, ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_REMOTE_WRITE));
	MADE(mr, ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_REMOTE_ATOMIC));
	MADE(mr, ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | (1 << 10)));
	MADE(mr, ibv_reg_mr(pd, (void *)16, 4096, IBV_ACCESS_LOCAL_WRITE));
	MADE(mr, ibv_reg_mr(pd, (void *)-4096L, 8192, IBV_ACCESS_LOCAL_WRITE));
	MADE(mr, ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_REMOTE_READ));
	STATUS(ibv_dereg_mr(mr));
	MADE(mr, ibv_reg_mr(pd, buffer, sizeof(buffer), EVERY_ACCESS | IBV_ACCESS_MW_BIND));
	STATUS(ibv_dereg_mr(mr));
	MADE(mr, ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
	STATUS(ibv_dereg_mr(mr));
	MADE(mr, ibv_reg_mr_iova(pd, buffer, 4096, (uintptr_t)buffer & 4095, IBV_ACCESS_LOCAL_WRITE));
	STATUS(ibv_dereg_mr(mr));
	MADE(mr, ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	STATUS(ibv_dealloc_pd(pd));
}

static void completion(struct ibv_context *context)
{
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *other;

	MADE(cq, ibv_create_cq(context, 0, NULL, NULL, 0));
	MADE(cq, ibv_create_cq(context, -1, NULL, NULL, 0));
	MADE(cq, ibv_create_cq(context, 0x7fffffff, NULL, NULL, 0));
	MADE(cq, ibv_create_cq(context, 10, NULL, NULL, 1000));
	MADE(channel, ibv_create_comp_channel(context));
	MADE(cq, ibv_create_cq(context, 10, &cq, channel, 0));
	MADE(other, ibv_create_cq(context, 10, &other, channel, 0));
	printf("cq: context %d, channel %d, cq_context %d, cqe %s, refcnt %d\n", cq->context == context,
	       cq->channel == channel, cq->cq_context == &cq, cq->cqe >= 10 ? "enough" : "too few", channel->refcnt);
	STATUS(ibv_destroy_comp_channel(channel));
	STATUS(ibv_resize_cq(cq, 100));
	printf("cqe %s\n", cq->cqe >= 100 ? "enough" : "too few");
	STATUS(ibv_resize_cq(cq, 0));
	STATUS(ibv_resize_cq(cq, 0x7fffffff));
	STATUS(ibv_req_notify_cq(cq, 0));
	STATUS(ibv_req_notify_cq(cq, 1));
	printf("empty poll: %d\n", ibv_poll_cq(cq, 1, NULL));
	STATUS(ibv_destroy_cq(cq));
	STATUS(ibv_destroy_cq(other));
	STATUS(ibv_destroy_comp_channel(channel));
}

static void shared_receive(struct ibv_context *context)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 10, .max_sge = 2 } };
	struct ibv_srq_attr attr = {};
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	uint32_t number;

	NEED(pd && cq);
	MADE(srq, ibv_create_srq(pd, &init));
	printf("max_wr %s, max_sge %s\n", init.attr.max_wr >= 10 ? "enough" : "too few",
	       init.attr.max_sge >= 2 ? "enough" : "too few");
	STATUS(ibv_query_srq(srq, &attr));
	printf("max_wr %s, max_sge %s, limit %d\n", attr.max_wr >= 10 ? "enough" : "too few",
	       attr.max_sge >= 2 ? "enough" : "too few", attr.srq_limit);
	attr.srq_limit = 5;
	STATUS(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	STATUS(ibv_query_srq(srq, &attr));
	printf("limit %d\n", attr.srq_limit);
	attr.srq_limit = 1 << 20;
	STATUS(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	attr.max_wr = 1 << 30;
	STATUS(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	attr.max_wr = 100;
	STATUS(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	STATUS(ibv_query_srq(srq, &attr));
	printf("max_wr %s\n", attr.max_wr >= 100 ? "enough" : "too few");
	STATUS(ibv_modify_srq(srq, &attr, 0));
	STATUS(ibv_get_srq_num(srq, &number));
	qp = make_qp(pd, cq, srq, IBV_QPT_RC);
	STATUS(ibv_destroy_srq(srq));
	STATUS(ibv_destroy_cq(cq));
	STATUS(ibv_dealloc_pd(pd));
	STATUS(ibv_destroy_qp(qp));
	STATUS(ibv_destroy_srq(srq));
	init.attr.max_wr = 0;
	MADE(srq, ibv_create_srq(pd, &init));
	init.attr.max_wr = 1 << 30;
	MADE(srq, ibv_create_srq(pd, &init));
	init.attr.max_wr = 1;
	init.attr.max_sge = 1 << 20;
	MADE(srq, ibv_create_srq(pd, &init));
	STATUS(ibv_destroy_cq(cq));
	STATUS(ibv_dealloc_pd(pd));
}

static void queue_pairs(struct ibv_context *context)
{
	static const struct {
		enum ibv_qp_type type;
		const char *name;
	} types[] = { { IBV_QPT_RC, "RC" },	    { IBV_QPT_UC, "UC" },	  { IBV_QPT_UD, "UD" },
		      { IBV_QPT_RAW_PACKET, "RAW" }, { IBV_QPT_XRC_SEND, "XRC" }, { 77, "77" } };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *send = ibv_create_cq(context, 10, NULL, NULL, 0), *recv = ibv_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_qp *qp;

	NEED(pd && send && recv);
	for (int i = 0; i < COUNT(types); i++) {
		struct ibv_qp_init_attr init = {
			.qp_context = &init,
			.send_cq = send,
			.recv_cq = recv,
			.cap = { .max_send_wr = 5, .max_recv_wr = 6, .max_send_sge = 2, .max_recv_sge = 3, .max_inline_data = 40 },
			.qp_type = types[i].type,
			.sq_sig_all = 1,
		};
		struct ibv_qp_init_attr told;
		struct ibv_qp_attr attr;

		errno = 0;
		qp = ibv_create_qp(pd, &init);
		printf("%s: %s\n", types[i].name, qp ? "made" : error_name(errno));
		if (!qp)
			continue;
		printf("granted %s\n", init.cap.max_send_wr >= 5 && init.cap.max_recv_wr >= 6 && init.cap.max_send_sge >= 2 &&
						       init.cap.max_recv_sge >= 3 && init.cap.max_inline_data >= 40 ?
					       "enough" :
					       "too little");
		printf("qp: context %d, qp_context %d, pd %d, send_cq %d, recv_cq %d, srq %d, type %d, state %d\n",
		       qp->context == context, qp->qp_context == &init, qp->pd == pd, qp->send_cq == send, qp->recv_cq == recv,
		       qp->srq == NULL, qp->qp_type == types[i].type, qp->state);
		STATUS(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &told));
		printf("told: qp_context %d, send_cq %d, recv_cq %d, srq %d, type %d, sig_all %d, same sizes %d, state %d\n",
		       told.qp_context == &init, told.send_cq == send, told.recv_cq == recv, told.srq == NULL,
		       told.qp_type == types[i].type, told.sq_sig_all,
		       told.cap.max_send_wr == attr.cap.max_send_wr && told.cap.max_recv_wr == attr.cap.max_recv_wr, attr.qp_state);
		STATUS(ibv_destroy_cq(send));
		STATUS(ibv_destroy_cq(recv));
		STATUS(ibv_dealloc_pd(pd));
		STATUS(ibv_destroy_qp(qp));
	}
	STATUS(ibv_destroy_cq(send));
	STATUS(ibv_destroy_cq(recv));
	STATUS(ibv_dealloc_pd(pd));
}

static void addresses(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	union ibv_gid gid;
	struct ibv_ah_attr good = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } }, attr;
	struct ibv_ah *ah;

	NEED(pd);
	good.grh.sgid_index = ipv4_gid(context, &gid);
	good.grh.dgid = gid;
	attr = good;
	MADE(ah, ibv_create_ah(pd, &attr));
	printf("ah: context %d, pd %d\n", ah->context == context, ah->pd == pd);
	STATUS(ibv_dealloc_pd(pd));
	STATUS(ibv_destroy_ah(ah));
	attr.is_global = 0;
	MADE(ah, ibv_create_ah(pd, &attr));
	attr = good;
	attr.port_num = 0;
	MADE(ah, ibv_create_ah(pd, &attr));
	attr.port_num = 2;
	MADE(ah, ibv_create_ah(pd, &attr));
	attr = good;
	attr.grh.sgid_index = last_gid(context);
	MADE(ah, ibv_create_ah(pd, &attr));
	STATUS(ibv_dealloc_pd(pd));
}

static void windows(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mw *mw;

	NEED(pd);
	MADE(mw, ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	printf("mw: context %d, pd %d, type %d\n", mw->context == context, mw->pd == pd, mw->type);
	STATUS(ibv_dealloc_pd(pd));
	STATUS(ibv_dealloc_mw(mw));
	MADE(mw, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	printf("mw: type %d\n", mw->type);
	STATUS(ibv_dealloc_mw(mw));
	MADE(mw, ibv_alloc_mw(pd, 3));
	STATUS(ibv_dealloc_pd(pd));
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_context(argc, argv);

	protection(context);
	completion(context);
	shared_receive(context);
	queue_pairs(context);
	addresses(context);
	windows(context);
	STATUS(ibv_close_device(context));
	return 0;
}
