/*
 * Every move between states of every type of queue pair: with the attributes it needs, with each of them left out, and with
 * each other one added. One line for each move; what is not in it is EINVAL.
 */
#include "common.h"

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
static const char *const type_names[] = { "RC", "UC", "UD" };
static const char *const states[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

static const struct {
	int mask;
	const char *name;
} attributes[] = {
	{ IBV_QP_CUR_STATE, "CUR_STATE" },
	{ IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY" },
	{ IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS" },
	{ IBV_QP_PKEY_INDEX, "PKEY_INDEX" },
	{ IBV_QP_PORT, "PORT" },
	{ IBV_QP_QKEY, "QKEY" },
	{ IBV_QP_AV, "AV" },
	{ IBV_QP_PATH_MTU, "PATH_MTU" },
	{ IBV_QP_TIMEOUT, "TIMEOUT" },
	{ IBV_QP_RETRY_CNT, "RETRY_CNT" },
	{ IBV_QP_RNR_RETRY, "RNR_RETRY" },
	{ IBV_QP_RQ_PSN, "RQ_PSN" },
	{ IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC" },
	{ IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER" },
	{ IBV_QP_SQ_PSN, "SQ_PSN" },
	{ IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC" },
	{ IBV_QP_DEST_QPN, "DEST_QPN" },
};

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static int gid_index;

/* A new queue pair in a state, or NULL if no call leads there. */
static struct ibv_qp *in_state(enum ibv_qp_type type, enum ibv_qp_state state)
{
	struct ibv_qp *qp = make_qp(pd, cq, NULL, type);
	struct ibv_qp_attr attr = { .qp_state = state };

	switch (state) {
	case IBV_QPS_ERR:
		bring_to(qp, IBV_QPS_INIT, gid_index, &gid, qp->qp_num);
		NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		break;
	case IBV_QPS_SQD:
		bring_to(qp, IBV_QPS_RTS, gid_index, &gid, qp->qp_num);
		NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		break;
	default:
		bring_to(qp, state, gid_index, &gid, qp->qp_num);
	}
	return qp;
}

static int move(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp *qp = in_state(type, from);
	struct ibv_qp_attr attr = good_attr(to, gid_index, &gid, qp->qp_num);
	int result;

	attr.cur_qp_state = from;
	result = ibv_modify_qp(qp, &attr, mask);
	NEED(result || !(mask & IBV_QP_STATE) || qp->state == to);
	NEED(!ibv_destroy_qp(qp));
	return result;
}

/* Linux adds the port to a new path in SQD, and then finds that UC takes no port there; IBTA lets UC take the path. */
static int is_peculiar(int t, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	return types[t] == IBV_QPT_UC && from == IBV_QPS_SQD && to == IBV_QPS_SQD && mask == IBV_QP_AV;
}

/* Prints the attributes with which a move that starts from `mask` goes otherwise than EINVAL. */
static void variants(int t, enum ibv_qp_state from, enum ibv_qp_state to, int mask, const char *words[2])
{
	for (int removed = 0; removed < 2; removed++) {
		const char *word = words[removed];

		for (int i = 0; i < COUNT(attributes); i++) {
			int error;

			if (!!(mask & attributes[i].mask) != removed || is_peculiar(t, from, to, attributes[i].mask))
				continue;
			error = move(types[t], from, to, mask ^ attributes[i].mask);
			if (error == EINVAL)
				continue;
			printf("%s %s", word, attributes[i].name);
			if (error)
				printf(" (%s)", error_name(error));
			word = ",";
		}
	}
	printf("\n");
}

static void moves(int t, enum ibv_qp_state from, enum ibv_qp_state to)
{
	static const char *words[2] = { "; or with", "; or without" };
	int needed = from == to ? IBV_QP_STATE : needed_mask(types[t], to);

	if (from == IBV_QPS_SQD && to == IBV_QPS_RTS)
		needed = IBV_QP_STATE;
	printf("%s %s to %s: %s", type_names[t], states[from], states[to], error_name(move(types[t], from, to, needed)));
	variants(t, from, to, needed, words);
}

static void changes_in_place(int t, enum ibv_qp_state state)
{
	static const char *words[2] = { ":", ":" };

	printf("%s in %s may change", type_names[t], states[state]);
	variants(t, state, state, 0, words);
}

int main(int argc, char **argv)
{
	static const enum ibv_qp_state from[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR };
	struct ibv_context *context = open_context(argc, argv);

	NEED(pd = ibv_alloc_pd(context));
	NEED(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	gid_index = ipv4_gid(context, &gid);
	for (int t = 0; t < COUNT(types); t++) {
		for (int i = 0; i < COUNT(from); i++) {
			for (enum ibv_qp_state to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++)
				moves(t, from[i], to);
			changes_in_place(t, from[i]);
		}
	}
	return 0;
}
