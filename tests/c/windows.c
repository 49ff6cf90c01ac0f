/* Memory windows of both types: bound, used, bound anew, invalidated; and what a bind may not ask for. */
#include "common.h"

enum { SIZE = 4096 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static unsigned char *memory;
static struct ibv_qp *owner, *peer;
static union ibv_gid gid;
static int gid_index;

static void connect_both(void)
{
	owner = make_qp(pd, cq, NULL, IBV_QPT_RC);
	peer = make_qp(pd, cq, NULL, IBV_QPT_RC);
	bring_to(owner, IBV_QPS_RTS, gid_index, &gid, peer->qp_num);
	bring_to(peer, IBV_QPS_RTS, gid_index, &gid, owner->qp_num);
}

static void destroy_both(void)
{
	NEED(!ibv_destroy_qp(owner) && !ibv_destroy_qp(peer));
}

static void show(const char *name)
{
	struct ibv_wc wc;

	if (!wait_completion(cq, &wc))
		printf("  %s: none\n", name);
	else
		printf("  %s: %s, opcode %d\n", name, ibv_wc_status_str(wc.status), wc.status ? -1 : (int)wc.opcode);
}

/* The peer writes eight bytes through a key. */
static void use(uint32_t rkey, uint64_t address)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = address, .rkey = rkey },
	}, *bad;

	NEED(!ibv_post_send(peer, &wr, &bad));
	show("use");
}

static void type_1(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	uint64_t start = (uintptr_t)memory + 1024;
	struct ibv_mw_bind bind = {
		.wr_id = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr, .addr = start, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE },
	};
	uint32_t first, old;

	printf("type 1\n");
	NEED(mw);
	connect_both();
	old = mw->rkey;
	STATUS(ibv_bind_mw(owner, mw, &bind));
	show("bind");
	printf("  another key %d, of the same window %d\n", mw->rkey != old, mw->rkey >> 8 == old >> 8);
	use(mw->rkey, start);
	first = mw->rkey;
	STATUS(ibv_bind_mw(owner, mw, &bind));
	show("bind");
	printf("  another key %d\n", mw->rkey != first);
	use(mw->rkey, start);
	use(first, start);
	destroy_both();

	connect_both();
	printf("bound to nothing\n");
	bind.bind_info.mr = NULL;
	STATUS(ibv_bind_mw(owner, mw, &bind));
	bind.bind_info.mr = mr;
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	STATUS(ibv_bind_mw(owner, mw, &bind));
	destroy_both();
	STATUS(ibv_dealloc_mw(mw));
}

static int bind_2(struct ibv_mw *mw, uint32_t rkey, uint64_t start, uint64_t length, unsigned int access)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw,
			     .rkey = rkey,
			     .bind_info = { .mr = mr, .addr = start, .length = length, .mw_access_flags = access } },
	}, *bad;

	return ibv_post_send(owner, &wr, &bad);
}

static void type_2(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	uint64_t start = (uintptr_t)memory + 1024;
	uint32_t rkey;
	struct ibv_send_wr invalidate = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED }, *bad;

	printf("type 2\n");
	NEED(mw);
	connect_both();
	rkey = ibv_inc_rkey(mw->rkey);
	STATUS(bind_2(mw, rkey, start, 64, IBV_ACCESS_REMOTE_WRITE));
	show("bind");
	use(rkey, start);
	printf("while it is bound: %s\n", error_name(ibv_dereg_mr(mr)));
	invalidate.invalidate_rkey = rkey;
	STATUS(ibv_post_send(owner, &invalidate, &bad));
	show("invalidate");
	use(rkey, start);
	destroy_both();

	printf("beyond the region\n");
	connect_both();
	STATUS(bind_2(mw, ibv_inc_rkey(rkey), (uintptr_t)memory + SIZE - 8, 64, IBV_ACCESS_REMOTE_WRITE));
	show("bind");
	destroy_both();
	STATUS(ibv_dealloc_mw(mw));
}

int main(int argc, char **argv)
{
	context = open_context(argc, argv);
	gid_index = ipv4_gid(context, &gid);
	NEED(pd = ibv_alloc_pd(context));
	NEED(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	NEED(memory = aligned_alloc(SIZE, SIZE));
	memset(memory, 0, SIZE);
	NEED(mr = ibv_reg_mr(pd, memory, SIZE, EVERY_ACCESS | IBV_ACCESS_MW_BIND));
	type_1();
	type_2();
	STATUS(ibv_dereg_mr(mr));
	return 0;
}
