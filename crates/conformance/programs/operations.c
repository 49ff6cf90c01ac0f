/*
 * Random operations of every kind on one reliable connection, each checked: bytes arrive in the right places and nowhere
 * else, each completion comes once and in order, atomics happen once, receives see what was sent in the order of sending.
 *
 *   operations SEED COUNT [DEVICE]
 *
 * Two processes, so two ends with their own state; the responder's memory is shared between them, so that the requester
 * can compare it with its model. Both draw the same operations from the same seed. Exits with 0 and one line of figures
 * when all is right; names the first thing that is wrong otherwise.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	DATA = 1 << 20,       /* bytes that WRITE and READ address */
	COUNTERS = 64,        /* atomic counters behind them */
	LARGEST = 32 << 10,   /* bytes in one operation */
	DEPTH = 32,           /* operations in flight */
	RECEIVES = 64,        /* receives posted */
	KINDS = 7,
};

static const char *const kind_names[KINDS] = { "send", "send_imm", "write", "write_imm", "read", "cas", "faa" };
static const enum ibv_wr_opcode opcodes[KINDS] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
};
enum { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CAS, FAA };

static const char *role;

#define FAIL(...)                                                                                     \
	do {                                                                                          \
		fprintf(stderr, "%s: ", role);                                                        \
		fprintf(stderr, __VA_ARGS__);                                                         \
		fprintf(stderr, "\n");                                                                \
		exit(1);                                                                              \
	} while (0)
#define NEED(condition)                                                                               \
	do {                                                                                          \
		if (!(condition))                                                                     \
			FAIL("line %d: %s (%s)", __LINE__, #condition, strerror(errno));              \
	} while (0)

/* xorshift64*: the same numbers in both processes. */
static uint64_t next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545F4914F6CDD1DULL;
}

struct operation {
	int kind;
	uint32_t length, offset, immediate;
	uint64_t counter, operand, content;
	int signalled, pieces;
};

/* The next operation of the stream. */
static struct operation draw(uint64_t *state)
{
	uint64_t random = next(state), more = next(state);
	struct operation op = { .kind = random % KINDS, .immediate = more >> 32, .operand = more, .content = next(state) };

	/* Half are of one packet, a few are empty. */
	op.length = (random >> 8) % ((random >> 40) & 1 ? 1024 : LARGEST);
	if (!((random >> 41) & 31))
		op.length = 0;
	op.offset = (random >> 16) % (DATA - op.length);
	op.counter = (random >> 32) % COUNTERS;
	op.signalled = (more & 3) != 0;
	op.pieces = 1 + (more >> 2) % 2;
	return op;
}

static void fill(unsigned char *at, uint32_t length, uint64_t content)
{
	for (uint32_t i = 0; i < length; i += 8) {
		uint64_t word = next(&content);

		memcpy(at + i, &word, length - i < 8 ? length - i : 8);
	}
}

struct shared {
	unsigned char data[DATA];
	uint64_t counters[COUNTERS];
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	union ibv_gid gid;
	int gid_index;
};

/* What the two ends tell each other. */
struct introduction {
	uint32_t qpn, psn, rkey;
	union ibv_gid gid;
};

static void find_gid(struct end *end)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry entry;

	for (end->gid_index = 0; end->gid_index < 64; end->gid_index++) {
		if (ibv_query_gid_ex(end->context, 1, end->gid_index, &entry, 0))
			continue;
		end->gid = entry.gid;
		if (!memcmp(entry.gid.raw, mapped, sizeof(mapped)))
			return;
	}
	FAIL("no IPv4 GID");
}

static struct end open_end(const char *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct end end = { 0 };

	NEED(list);
	for (int i = 0; list[i] && !end.context; i++)
		if (!device || !strcmp(device, ibv_get_device_name(list[i])))
			end.context = ibv_open_device(list[i]);
	NEED(end.context);
	ibv_free_device_list(list);
	find_gid(&end);
	NEED(end.pd = ibv_alloc_pd(end.context));
	NEED(end.cq = ibv_create_cq(end.context, 2 * RECEIVES, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {
		.send_cq = end.cq, .recv_cq = end.cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH + 1, .max_recv_wr = RECEIVES, .max_send_sge = 2, .max_recv_sge = 1 },
	};
	NEED(end.qp = ibv_create_qp(end.pd, &init));
	return end;
}

static struct introduction exchange(int socket, struct introduction mine)
{
	struct introduction theirs;

	NEED(write(socket, &mine, sizeof(mine)) == sizeof(mine));
	NEED(read(socket, &theirs, sizeof(theirs)) == sizeof(theirs));
	return theirs;
}

static void connect_end(struct end *end, struct introduction mine, struct introduction theirs)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	NEED(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = theirs.qpn, .rq_psn = theirs.psn,
		.max_dest_rd_atomic = 8, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = theirs.gid, .sgid_index = end->gid_index, .hop_limit = 64 } },
	};
	NEED(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .sq_psn = mine.psn, .timeout = 12, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 8,
	};
	NEED(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static int takes_receive(int kind)
{
	return kind == SEND || kind == SEND_IMM || kind == WRITE_IMM;
}

/* The responder: every receive must be the next one that the stream of operations calls for. */

static void post_receive(struct end *end, struct ibv_mr *mr, int slot)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr + slot * LARGEST, LARGEST, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	NEED(!ibv_post_recv(end->qp, &wr, &bad));
}

static void check_receive(const struct ibv_wc *wc, const unsigned char *received, const struct operation *op)
{
	static unsigned char expected[LARGEST + 8];
	int with_immediate = op->kind != SEND;

	if (wc->status)
		FAIL("a receive failed: %s", ibv_wc_status_str(wc->status));
	if (wc->opcode != (op->kind == WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		FAIL("a receive of kind %d for a %s", wc->opcode, kind_names[op->kind]);
	if (wc->byte_len != op->length)
		FAIL("received %u bytes, %u were sent", wc->byte_len, op->length);
	if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != with_immediate || (with_immediate && ntohl(wc->imm_data) != op->immediate))
		FAIL("another immediate than was sent");
	if (op->kind == WRITE_IMM)
		return;
	fill(expected, op->length, op->content);
	if (memcmp(received, expected, op->length))
		FAIL("other bytes received than were sent by a %s of %u", kind_names[op->kind], op->length);
}

static void respond(int socket, struct shared *shared, uint64_t seed, uint64_t count, const char *device)
{
	role = "responder";
	struct end end = open_end(device);
	unsigned char *buffer = calloc(RECEIVES, LARGEST);
	struct ibv_mr *receives, *target;
	uint64_t state = seed, done = 0;
	struct ibv_wc wc;

	NEED(receives = ibv_reg_mr(end.pd, buffer, RECEIVES * LARGEST, IBV_ACCESS_LOCAL_WRITE));
	NEED(target = ibv_reg_mr(end.pd, shared, sizeof(*shared),
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_REMOTE_ATOMIC));
	struct introduction mine = { end.qp->qp_num, 0xfffff0, target->rkey, end.gid };
	connect_end(&end, mine, exchange(socket, mine));
	for (int slot = 0; slot < RECEIVES; slot++)
		post_receive(&end, receives, slot);
	exchange(socket, mine);
	for (; done < count; done++) {
		struct operation op = draw(&state);

		if (!takes_receive(op.kind))
			continue;
		while (!ibv_poll_cq(end.cq, 1, &wc))
			;
		check_receive(&wc, buffer + wc.wr_id * LARGEST, &op);
		post_receive(&end, receives, wc.wr_id);
	}
	/* The last acknowledgement may be lost: stay until the requester has all its completions. */
	exchange(socket, mine);
	if (ibv_poll_cq(end.cq, 1, &wc))
		FAIL("one receive more than was sent");
	exit(0);
}

/* The requester: a model of the responder's memory, and what each operation in flight must come back with. */

struct flight {
	struct operation op;
	uint64_t number, expected;
};

static struct shared model;
static unsigned char *local;
static struct ibv_mr *local_mr;
static struct flight flights[DEPTH];
static uint64_t totals[KINDS], bytes;

static unsigned char *slot_of(uint64_t number)
{
	return local + (number % DEPTH) * 2 * LARGEST;
}

static int overlaps_read(const struct operation *op, uint64_t oldest, uint64_t number)
{
	for (uint64_t i = oldest; i < number; i++) {
		const struct operation *other = &flights[i % DEPTH].op;

		if (other->kind == READ && other->offset < op->offset + op->length && op->offset < other->offset + other->length)
			return 1;
	}
	return 0;
}

/* What the operation does to the model, and what it must find there. */
static void predict(struct flight *flight, unsigned char *slot)
{
	struct operation *op = &flight->op;

	switch (op->kind) {
	case READ: /* the second half of the slot holds what must arrive in the first */
		memcpy(slot + LARGEST, model.data + op->offset, op->length);
		memset(slot, 0xee, LARGEST);
		break;
	case WRITE:
	case WRITE_IMM:
		fill(slot, op->length, op->content);
		memcpy(model.data + op->offset, slot, op->length);
		break;
	case SEND:
	case SEND_IMM:
		fill(slot, op->length, op->content);
		break;
	case CAS: /* half of them find what they compare with */
		op->length = 8;
		flight->expected = model.counters[op->counter];
		if (op->content & 1)
			op->content = flight->expected;
		if (flight->expected == op->content)
			model.counters[op->counter] = op->operand;
		break;
	case FAA:
		op->length = 8;
		flight->expected = model.counters[op->counter];
		model.counters[op->counter] += op->operand;
		break;
	}
}

static void post(struct end *end, struct flight *flight, uint64_t oldest, struct introduction peer, struct shared *shared)
{
	struct operation *op = &flight->op;
	unsigned char *slot = slot_of(flight->number);

	predict(flight, slot);
	uint32_t first = op->pieces == 2 ? op->length / 3 : op->length;
	struct ibv_sge sges[2] = {
		{ (uintptr_t)slot, first, local_mr->lkey },
		{ (uintptr_t)slot + first, op->length - first, local_mr->lkey },
	};
	struct ibv_send_wr wr = {
		.wr_id = flight->number, .sg_list = sges, .num_sge = op->pieces, .opcode = opcodes[op->kind],
		.imm_data = htonl(op->immediate), .send_flags = op->signalled ? IBV_SEND_SIGNALED : 0,
	}, *bad;
	/* A READ that is repeated after a loss reads again: what overwrites its source waits for it. */
	if ((op->kind == WRITE || op->kind == WRITE_IMM) && overlaps_read(op, oldest, flight->number))
		wr.send_flags |= IBV_SEND_FENCE;
	if (op->kind >= CAS) {
		wr.num_sge = 1;
		sges[0].length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)&shared->counters[op->counter];
		wr.wr.atomic.rkey = peer.rkey;
		wr.wr.atomic.compare_add = op->kind == CAS ? op->content : op->operand;
		wr.wr.atomic.swap = op->operand;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)shared->data + op->offset;
		wr.wr.rdma.rkey = peer.rkey;
	}
	NEED(!ibv_post_send(end->qp, &wr, &bad));
	totals[op->kind]++;
	bytes += op->length;
}

static void check_arrived(const struct flight *flight)
{
	const struct operation *op = &flight->op;
	const unsigned char *slot = slot_of(flight->number);
	uint64_t found;

	if (op->kind == READ && memcmp(slot, slot + LARGEST, op->length))
		FAIL("operation %lu: a read of %u at %u brought other bytes", flight->number, op->length, op->offset);
	if (op->kind == READ && op->length < LARGEST && slot[op->length] != 0xee)
		FAIL("operation %lu: a read of %u wrote behind its buffer", flight->number, op->length);
	memcpy(&found, slot, 8);
	if (op->kind >= CAS && found != flight->expected)
		FAIL("operation %lu: %s found %lx, not %lx", flight->number, kind_names[op->kind], found, flight->expected);
}

/* Takes one completion, if there is one; it also completes what went unsignalled before it. Returns the new oldest. */
static uint64_t reap(struct end *end, uint64_t oldest, uint64_t number)
{
	struct ibv_wc wc;

	if (!ibv_poll_cq(end->cq, 1, &wc))
		return oldest;
	if (wc.status)
		FAIL("operation %lu (%s) failed: %s", (unsigned long)wc.wr_id, kind_names[flights[wc.wr_id % DEPTH].op.kind],
		     ibv_wc_status_str(wc.status));
	while (oldest < number && !flights[oldest % DEPTH].op.signalled)
		check_arrived(&flights[oldest++ % DEPTH]);
	if (oldest == number || wc.wr_id != oldest)
		FAIL("completion of %lu, expected that of %lu", (unsigned long)wc.wr_id, (unsigned long)oldest);
	check_arrived(&flights[oldest % DEPTH]);
	return oldest + 1;
}

static void request(int socket, struct shared *shared, uint64_t seed, uint64_t count, const char *device)
{
	role = "requester";
	struct end end = open_end(device);
	uint64_t state = seed, oldest = 0, number = 0;
	struct timespec start, stop;
	struct ibv_wc wc;

	NEED(local = calloc(DEPTH, 2 * LARGEST));
	NEED(local_mr = ibv_reg_mr(end.pd, local, DEPTH * 2 * LARGEST, IBV_ACCESS_LOCAL_WRITE));
	struct introduction mine = { end.qp->qp_num, 0xfffff0, 0, end.gid }, peer = exchange(socket, mine);
	connect_end(&end, mine, peer);
	exchange(socket, mine);
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (oldest < count) {
		/* What ends a full window is signalled, or nothing would ever tell that it has room again. */
		if (number < count && number - oldest < DEPTH) {
			struct flight *flight = &flights[number % DEPTH];

			*flight = (struct flight){ .op = draw(&state), .number = number };
			if (number % (DEPTH / 2) == 0 || number + 1 == count)
				flight->op.signalled = 1;
			post(&end, flight, oldest, peer, shared);
			number++;
		}
		oldest = reap(&end, oldest, number);
	}
	clock_gettime(CLOCK_MONOTONIC, &stop);
	exchange(socket, mine);
	if (ibv_poll_cq(end.cq, 1, &wc))
		FAIL("one completion more than operations");
	if (memcmp(shared, &model, sizeof(model)))
		FAIL("the responder's memory is not what the operations make of it");
	printf("%lu operations right, %lu bytes, %.2f s:", count, bytes,
	       (stop.tv_sec - start.tv_sec) + (stop.tv_nsec - start.tv_nsec) / 1e9);
	for (int kind = 0; kind < KINDS; kind++)
		printf(" %s %lu", kind_names[kind], totals[kind]);
	printf("\n");
}

int main(int argc, char **argv)
{
	int sockets[2], status;
	struct shared *shared;

	role = "operations";
	if (argc < 3)
		FAIL("usage: operations SEED COUNT [DEVICE]");
	uint64_t seed = strtoull(argv[1], NULL, 0) * 2 + 1, count = strtoull(argv[2], NULL, 0);
	const char *device = argc > 3 ? argv[3] : NULL;

	NEED((shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
	NEED(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pid_t child = fork();
	NEED(child >= 0);
	if (!child) {
		close(sockets[0]);
		respond(sockets[1], shared, seed, count, device);
	}
	close(sockets[1]);
	request(sockets[0], shared, seed, count, device);
	NEED(waitpid(child, &status, 0) == child);
	if (status)
		FAIL("the responder ended with %d", status);
	return 0;
}
