/* Datagrams between two queue pairs of this process: what arrives, what does not, and the way back to the sender. */
#include "common.h"
#include <arpa/inet.h>

enum { SIZE = 8192, GRH = 40 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *from, *to;
static struct ibv_ah *ah;
static struct ibv_mr *mr;
static unsigned char *memory;

static void receive(int id, int length)
{
	struct ibv_sge sge = { (uintptr_t)memory, length, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	NEED(!ibv_post_recv(to, &wr, &bad));
}

static int send_datagram(enum ibv_wr_opcode opcode, uint32_t qpn, uint32_t qkey, int length)
{
	struct ibv_sge sge = { (uintptr_t)memory + SIZE / 2, length, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 100,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(0xabcd),
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = qkey },
	}, *bad;

	return ibv_post_send(from, &wr, &bad);
}

/* Prints the next completions, those of sends before those of receives. */
static void show(int count, struct ibv_wc *last_receive)
{
	struct ibv_wc wc[2];

	for (int i = 0; i < count; i++)
		if (!wait_completion(cq, &wc[i])) {
			printf("  only %d\n", i);
			return;
		}
	if (count == 2 && (wc[0].opcode & IBV_WC_RECV)) {
		struct ibv_wc swap = wc[0];
		wc[0] = wc[1];
		wc[1] = swap;
	}
	for (int i = 0; i < count; i++) {
		printf("  wr_id %d, %s, opcode %d", (int)wc[i].wr_id, ibv_wc_status_str(wc[i].status), wc[i].opcode);
		if (wc[i].status == IBV_WC_SUCCESS && wc[i].opcode & IBV_WC_RECV) {
			printf(", flags %d, length %d, from the sender %d", wc[i].wc_flags, wc[i].byte_len,
			       wc[i].src_qp == from->qp_num);
			if (wc[i].wc_flags & IBV_WC_WITH_IMM)
				printf(", immediate %#x", ntohl(wc[i].imm_data));
			*last_receive = wc[i];
		}
		printf("\n");
	}
}

int main(int argc, char **argv)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 7, .traffic_class = 0x20 } }, back;
	union ibv_gid gid;
	struct ibv_wc wc = {};
	int gid_index;

	context = open_context(argc, argv);
	NEED(pd = ibv_alloc_pd(context));
	NEED(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	gid_index = ipv4_gid(context, &gid);
	NEED(memory = aligned_alloc(4096, SIZE));
	memset(memory, 0, SIZE / 2);
	memset(memory + SIZE / 2, 0x5a, SIZE / 2);
	NEED(mr = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE));
	from = make_qp(pd, cq, NULL, IBV_QPT_UD);
	to = make_qp(pd, cq, NULL, IBV_QPT_UD);
	bring_to(from, IBV_QPS_RTS, gid_index, &gid, 0);
	bring_to(to, IBV_QPS_RTS, gid_index, &gid, 0);
	attr.grh.dgid = gid;
	attr.grh.sgid_index = gid_index;
	NEED(ah = ibv_create_ah(pd, &attr));

	printf("a datagram\n");
	receive(1, SIZE / 2);
	STATUS(send_datagram(IBV_WR_SEND, to->qp_num, QKEY, 16));
	show(2, &wc);
	printf("  data %02x %02x %02x\n", memory[GRH], memory[GRH + 15], memory[GRH + 16]);
	printf("  IPv4 header: version %02x, tos %02x, protocol %d\n", memory[20], memory[21] & 0xfc, memory[29]);

	printf("the way back\n");
	memset(&back, 0xee, sizeof(back));
	RESULT(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)memory, &back));
	printf("  global %d, port %d, dgid %d, sgid_index %d, traffic class %#x, dlid %d, sl %d\n", back.is_global,
	       back.port_num, !memcmp(&back.grh.dgid, &gid, sizeof(gid)), back.grh.sgid_index == gid_index,
	       back.grh.traffic_class & 0xfc, back.dlid, back.sl);
	{
		struct ibv_ah *other;
		MADE(other, ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)memory, 1));
		STATUS(ibv_destroy_ah(other));
	}
	memory[30] ^= 0xff; /* the checksum, which decides where an IPv6 header may be left over */
	memory[0] = 0x60;
	RESULT(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)memory, &back));
	memory[0] = 0;
	RESULT(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)memory, &back));
	memory[20] = 0;
	RESULT(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)memory, &back));
	printf("  %s\n", error_name(errno));
	wc.wc_flags &= ~IBV_WC_GRH;
	RESULT(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)memory, &back));
	printf("  global %d, port %d\n", back.is_global, back.port_num);

	printf("with immediate data\n");
	receive(2, SIZE / 2);
	STATUS(send_datagram(IBV_WR_SEND_WITH_IMM, to->qp_num, QKEY, 1));
	show(2, &wc);

	printf("of nothing\n");
	receive(3, SIZE / 2);
	STATUS(send_datagram(IBV_WR_SEND, to->qp_num, QKEY, 0));
	show(2, &wc);

	printf("with a wrong queue key: the sender does not know\n");
	STATUS(send_datagram(IBV_WR_SEND, to->qp_num, QKEY + 1, 8));
	show(1, &wc);

	printf("to nobody\n");
	STATUS(send_datagram(IBV_WR_SEND, 0xfffff0, QKEY, 8));
	show(1, &wc);

	STATUS(ibv_destroy_ah(ah));
	STATUS(ibv_destroy_qp(from));
	STATUS(ibv_destroy_qp(to));
	return 0;
}
