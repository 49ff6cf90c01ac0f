/* What neither of the two has: every inline function of verbs.h finds its way and answers EOPNOTSUPP. */
#include "common.h"

int main(int argc, char **argv)
{
	struct ibv_context *context = open_context(argc, argv);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_td *td;
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	struct ibv_wq *wq;
	struct ibv_flow *flow;
	struct ibv_flow_action *action;
	struct ibv_counters *counters;
	struct ibv_rwq_ind_table *table;
	struct ibv_pd *parent;
	struct ibv_cq_ex *cq_ex;
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ece ece = { .vendor_id = 1 };
	struct ibv_sge sge = {};
	struct ibv_ops_wr ops = {}, *bad_ops;

	NEED(pd && cq);
	qp = make_qp(pd, cq, NULL, IBV_QPT_RC);
	NEED(srq = ibv_create_srq(pd, &plain));
	MADE(xrcd, ibv_open_xrcd(context, (&(struct ibv_xrcd_init_attr){ .comp_mask = 3, .fd = -1, .oflags = 0100 })));
	MADE(td, ibv_alloc_td(context, &(struct ibv_td_init_attr){}));
	MADE(parent, ibv_alloc_parent_domain(context, &(struct ibv_parent_domain_init_attr){ .pd = pd }));
	MADE(dm, ibv_alloc_dm(context, &(struct ibv_alloc_dm_attr){ .length = 64 }));
	MADE(mr, ibv_alloc_null_mr(pd));
	MADE(wq, ibv_create_wq(context, &(struct ibv_wq_init_attr){ .max_wr = 1 }));
	MADE(flow, ibv_create_flow(qp, &(struct ibv_flow_attr){ .port = 1, .size = sizeof(struct ibv_flow_attr) }));
	MADE(action, ibv_create_flow_action_esp(context, &(struct ibv_flow_action_esp_attr){}));
	MADE(counters, ibv_create_counters(context, &(struct ibv_counters_init_attr){}));
	MADE(table, ibv_create_rwq_ind_table(context, &(struct ibv_rwq_ind_table_init_attr){}));
	MADE(qp, ibv_open_qp(context, &(struct ibv_qp_open_attr){}));
	MADE(srq, ibv_create_srq_ex(context, (&(struct ibv_srq_init_attr_ex){
						     .attr = { .max_wr = 4, .max_sge = 1 },
						     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
								  IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
						     .srq_type = IBV_SRQT_TM,
						     .pd = pd,
						     .cq = cq,
						     .tm_cap = { 4, 4 } })));
	MADE(cq_ex, ibv_create_cq_ex(context, (&(struct ibv_cq_init_attr_ex){ .cqe = 4, .wc_flags = IBV_WC_EX_WITH_TM_INFO })));
	MADE(cq_ex, ibv_create_cq_ex(context, (&(struct ibv_cq_init_attr_ex){ .cqe = 4, .wc_flags = 1 << 30 })));
	NEED(srq = ibv_create_srq(pd, &plain));
	qp = make_qp(pd, cq, NULL, IBV_QPT_RC);
	STATUS(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	STATUS(ibv_modify_qp_rate_limit(qp, &(struct ibv_qp_rate_limit_attr){ .rate_limit = 1000 }));
	STATUS(ibv_modify_cq(cq, &(struct ibv_modify_cq_attr){ .attr_mask = IBV_CQ_ATTR_MODERATE }));
	STATUS(ibv_post_srq_ops(srq, &ops, &bad_ops));
	STATUS(ibv_set_ece(qp, &ece));
	STATUS(ibv_query_ece(qp, &ece));
	STATUS(ibv_query_device_ex(context, &(struct ibv_query_device_ex_input){ .comp_mask = 1 }, &(struct ibv_device_attr_ex){}));
	STATUS(ibv_query_device_ex(context, NULL, &(struct ibv_device_attr_ex){}));
	RESULT(ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0));
	RESULT(ibv_qp_to_qp_ex(qp) == NULL);
	RESULT(ibv_fork_init());
	RESULT(ibv_is_fork_initialized());
	return 0;
}
