/*
 * Extended queue pairs and extended completion queues: requests part by part, completions value by value. What rxe gets wrong
 * (inline data, lists of pieces, going on with ibv_next_poll) is in strict.c.
 */
#include "common.h"
#include <arpa/inet.h>

enum { SIZE = 4096 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq_ex *cq;
static struct ibv_qp *qps[2];
static struct ibv_qp_ex *qp;
static struct ibv_mr *mr;
static unsigned char *memory;

static struct ibv_qp *make(enum ibv_qp_type type, uint64_t operations)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 },
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = operations,
	};

	errno = 0;
	return ibv_create_qp_ex(context, &init);
}

static void support(void)
{
	static const struct {
		enum ibv_qp_type type;
		const char *name;
	} types[] = { { IBV_QPT_RC, "RC" }, { IBV_QPT_UC, "UC" }, { IBV_QPT_UD, "UD" } };

	for (int t = 0; t < COUNT(types); t++)
		for (int bit = 0; bit < 14; bit++) {
			struct ibv_qp *made;
			/* rxe's UC takes SEND_WITH_INV, for which there is no packet, and not LOCAL_INV, for which none is needed. */
			if (bit == 12 || (types[t].type == IBV_QPT_UC && (bit == 7 || bit == 9)))
				continue;
			made = make(types[t].type, 1ULL << bit);
			printf("%s with operation %d: %s\n", types[t].name, bit, made ? "made" : error_name(errno));
			if (made) {
				printf("  extended: %d\n", ibv_qp_to_qp_ex(made) != NULL);
				NEED(!ibv_destroy_qp(made));
			}
		}
}

static void receive(int id)
{
	struct ibv_sge sge = { (uintptr_t)memory + 2048, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	NEED(!ibv_post_recv(qps[1], &wr, &bad));
}

/* Waits for `count` completions; sends are printed before receives. */
static void show(int count)
{
	struct ibv_poll_cq_attr attr = {};
	char sends[1024] = "", receives[1024] = "";

	for (int waited = 0; count > 0 && waited < 3000000; waited += 100) {
		int error = ibv_start_poll(cq, &attr), recv;
		char *line;

		if (error) {
			if (error != ENOENT)
				printf("  start_poll: %s\n", error_name(error));
			usleep(100);
			continue;
		}
		recv = ibv_wc_read_opcode(cq) & IBV_WC_RECV;
		line = recv ? receives : sends;
		line += strlen(line);
		line += sprintf(line, "  wr_id %d, %s, opcode %d, vendor_err %d, qp %d", (int)cq->wr_id,
				ibv_wc_status_str(cq->status), ibv_wc_read_opcode(cq), ibv_wc_read_vendor_err(cq),
				ibv_wc_read_qp_num(cq) == qps[!!recv]->qp_num);
		if (recv)
			line += sprintf(line, ", flags %d, length %d", ibv_wc_read_wc_flags(cq) & ~IBV_WC_GRH,
					ibv_wc_read_byte_len(cq));
		if (recv && ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM)
			line += sprintf(line, ", immediate %#x", ntohl(ibv_wc_read_imm_data(cq)));
		sprintf(line, "\n");
		ibv_end_poll(cq);
		count--;
	}
	printf("%s%s", sends, receives);
	if (count)
		printf("  %d missing\n", count);
}

static void show_memory(int at, int length)
{
	printf("  memory:");
	for (int i = at; i < at + length; i++)
		printf(" %02x", memory[i]);
	printf("\n");
}

static void begin(int id, int flags)
{
	ibv_wr_start(qp);
	qp->wr_id = id;
	qp->wr_flags = flags;
}

static void operations(void)
{
	struct ibv_sge list[2] = { { (uintptr_t)memory, 4, mr->lkey }, { (uintptr_t)memory + 16, 2, mr->lkey } };
	uint64_t remote = (uintptr_t)memory + 1024, word = 40;

	printf("send\n");
	receive(1);
	begin(10, IBV_SEND_SIGNALED);
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
	STATUS(ibv_wr_complete(qp));
	show(2);
	show_memory(2048, 9);

	printf("send with immediate\n");
	receive(2);
	begin(11, IBV_SEND_SIGNALED);
	ibv_wr_send_imm(qp, htonl(0x99));
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory + 5, 6);
	STATUS(ibv_wr_complete(qp));
	show(2);
	show_memory(2048, 6);

	printf("write, write with immediate, read, in one go\n");
	receive(3);
	begin(12, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, mr->rkey, remote);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 6);
	qp->wr_id = 13;
	ibv_wr_rdma_write_imm(qp, mr->rkey, remote + 8, htonl(5));
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 3);
	qp->wr_id = 14;
	qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	ibv_wr_rdma_read(qp, mr->rkey, remote);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory + 3072, 12);
	STATUS(ibv_wr_complete(qp));
	show(4);
	show_memory(3072, 12);

	printf("atomics\n");
	memcpy(memory + 1024, &word, 8);
	begin(15, IBV_SEND_SIGNALED);
	ibv_wr_atomic_fetch_add(qp, mr->rkey, remote, 2);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory + 3072, 8);
	qp->wr_id = 16;
	ibv_wr_atomic_cmp_swp(qp, mr->rkey, remote, 42, 7);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory + 3080, 8);
	STATUS(ibv_wr_complete(qp));
	show(2);
	show_memory(3072, 16);
	show_memory(1024, 8);

	printf("aborted\n");
	begin(17, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, mr->rkey, remote);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
	ibv_wr_abort(qp);
	begin(18, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, mr->rkey, remote);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
	STATUS(ibv_wr_complete(qp));
	show(1);

	printf("too much inline\n");
	begin(19, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, mr->rkey, remote);
	ibv_wr_set_inline_data(qp, memory, SIZE);
	STATUS(ibv_wr_complete(qp));
	printf("nothing was posted: %s\n", error_name(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){})));

	printf("too many pieces\n");
	begin(20, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, mr->rkey, remote);
	ibv_wr_set_sge_list(qp, 1000, list);
	STATUS(ibv_wr_complete(qp));

	printf("too many requests: none is posted\n");
	begin(21, IBV_SEND_SIGNALED);
	for (int i = 0; i < 1000; i++) {
		ibv_wr_rdma_write(qp, mr->rkey, remote);
		ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
	}
	STATUS(ibv_wr_complete(qp));
	begin(22, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, mr->rkey, remote);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
	STATUS(ibv_wr_complete(qp));
	show(1);

	printf("a wrong remote key\n");
	begin(23, 0);
	ibv_wr_rdma_write(qp, mr->rkey ^ 0x5a5a5a00, remote);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
	STATUS(ibv_wr_complete(qp));
}

int main(int argc, char **argv)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 64,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP,
	};
	union ibv_gid gid;
	int gid_index;

	context = open_context(argc, argv);
	gid_index = ipv4_gid(context, &gid);
	NEED(pd = ibv_alloc_pd(context));
	MADE(cq, ibv_create_cq_ex(context, &init));
	NEED(memory = aligned_alloc(SIZE, SIZE));
	for (int i = 0; i < SIZE; i++)
		memory[i] = i;
	NEED(mr = ibv_reg_mr(pd, memory, SIZE, EVERY_ACCESS));
	support();
	for (int i = 0; i < 2; i++)
		NEED(qps[i] = make(IBV_QPT_RC, 0x7f));
	bring_to(qps[0], IBV_QPS_RTS, gid_index, &gid, qps[1]->qp_num);
	bring_to(qps[1], IBV_QPS_RTS, gid_index, &gid, qps[0]->qp_num);
	qp = ibv_qp_to_qp_ex(qps[0]);
	printf("empty: %s\n", error_name(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){})));
	printf("empty again: %s\n", error_name(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){})));
	operations();
	STATUS(ibv_destroy_qp(qps[0]));
	STATUS(ibv_destroy_qp(qps[1]));
	STATUS(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	return 0;
}
