/* Multicast groups: who may join and leave. */
#include "common.h"

int main(int argc, char **argv)
{
	struct ibv_context *context = open_context(argc, argv);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *rc, *to;
	union ibv_gid gid, group = { .raw = { [10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2, [15] = 3 } }, other;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };
	struct ibv_ah *ah;

	NEED(pd && cq);
	attr.grh.sgid_index = ipv4_gid(context, &gid);
	attr.grh.dgid = group;
	rc = make_qp(pd, cq, NULL, IBV_QPT_RC);
	to = make_qp(pd, cq, NULL, IBV_QPT_UD);
	bring_to(to, IBV_QPS_RTS, attr.grh.sgid_index, &gid, 0);

	STATUS(ibv_attach_mcast(rc, &group, 0));
	STATUS(ibv_attach_mcast(to, &gid, 0));
	STATUS(ibv_detach_mcast(to, &group, 0));
	STATUS(ibv_attach_mcast(to, &group, 0));
	STATUS(ibv_attach_mcast(to, &group, 0));
	other = group;
	other.raw[15] = 4;
	STATUS(ibv_attach_mcast(to, &other, 0));
	STATUS(ibv_detach_mcast(to, &other, 0));
	STATUS(ibv_detach_mcast(to, &other, 0));
	STATUS(ibv_destroy_qp(to));
	STATUS(ibv_detach_mcast(to, &group, 0));
	STATUS(ibv_destroy_qp(to));
	to = make_qp(pd, cq, NULL, IBV_QPT_UD);
	bring_to(to, IBV_QPS_RTS, attr.grh.sgid_index, &gid, 0);
	STATUS(ibv_attach_mcast(to, &group, 0));

	MADE(ah, ibv_create_ah(pd, &attr));
	STATUS(ibv_detach_mcast(to, &group, 0));
	STATUS(ibv_destroy_ah(ah));
	STATUS(ibv_destroy_qp(to));
	return 0;
}
