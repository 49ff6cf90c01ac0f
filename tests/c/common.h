/*
 * What the programs of this directory share. Each runs on the genuine library and on ours, and prints the same on both: so
 * no numbers that a device chooses, and no attributes of the device.
 */
#ifndef COMMON_H
#define COMMON_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

/* Ends the program where it cannot go on; what is under test is printed instead. */
#define NEED(condition)                                                                               \
	do {                                                                                          \
		if (!(condition)) {                                                                   \
			printf("line %d: need %s, errno %d\n", __LINE__, #condition, errno);          \
			exit(1);                                                                      \
		}                                                                                     \
	} while (0)

static inline const char *error_name(int error)
{
	switch (error) {
	case 0: return "0";
	case EPERM: return "EPERM";
	case ENOENT: return "ENOENT";
	case EIO: return "EIO";
	case EAGAIN: return "EAGAIN";
	case ENOMEM: return "ENOMEM";
	case EFAULT: return "EFAULT";
	case EBUSY: return "EBUSY";
	case ENODEV: return "ENODEV";
	case EINVAL: return "EINVAL";
	case ENOSPC: return "ENOSPC";
	case ENODATA: return "ENODATA";
	case EPROTONOSUPPORT: return "EPROTONOSUPPORT";
	case EOPNOTSUPP: return "EOPNOTSUPP";
	case ENOSYS: return "ENOSYS";
	default: break;
	}
	static char other[32];
	snprintf(other, sizeof(other), "error %d", error);
	return other;
}

/* Prints what a function returned that returns 0 or an error. */
#define STATUS(call) printf("%s: %s\n", #call, error_name(call))

/* Prints what a function returned that returns a number. */
#define RESULT(call) printf("%s: %d\n", #call, call)

/* Prints whether a function made an object, and errno if it did not; keeps the object. */
#define MADE(object, call)                                                                            \
	do {                                                                                          \
		errno = 0;                                                                            \
		object = call;                                                                        \
		printf("%s: %s\n", #call, object ? "made" : error_name(errno));                       \
	} while (0)

/* The device that the first argument names, or else the first there is. */
static inline struct ibv_context *open_context(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	NEED(list);
	for (int i = 0; list[i] && !context; i++)
		if (argc < 2 || !strcmp(argv[1], ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	NEED(context);
	ibv_free_device_list(list);
	return context;
}

/* The index of the first RoCE v2 GID that holds an IPv4 address. */
static inline int ipv4_gid(struct ibv_context *context, union ibv_gid *gid)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry entry;

	for (int i = 0; i < 64; i++) {
		if (ibv_query_gid_ex(context, 1, i, &entry, 0) || entry.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (!memcmp(entry.gid.raw, mapped, sizeof(mapped))) {
			*gid = entry.gid;
			return i;
		}
	}
	NEED(!"an IPv4 GID");
	return -1;
}

/* The last index that an address can name; an entry that is empty unless the machine has a great many addresses. */
static inline int last_gid(struct ibv_context *context)
{
	struct ibv_port_attr port;

	NEED(!ibv_query_port(context, 1, &port));
	return (port.gid_tbl_len < 256 ? port.gid_tbl_len : 256) - 1;
}

/* A queue pair of plain size on one completion queue for both sides. */
static inline struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 },
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	NEED(qp);
	return qp;
}

#define EVERY_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

#define QKEY 0x1234

/* What a move of a queue pair to a state takes. */
static inline int needed_mask(enum ibv_qp_type type, enum ibv_qp_state to)
{
	int mask = IBV_QP_STATE;

	switch (to) {
	case IBV_QPS_INIT:
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
		return mask | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (type != IBV_QPT_UD)
			mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		if (type == IBV_QPT_RC)
			mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		return mask;
	case IBV_QPS_RTS:
		mask |= IBV_QP_SQ_PSN;
		if (type == IBV_QPT_RC)
			mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		return mask;
	default:
		return mask;
	}
}

/* Good values for every attribute, for a connection to `peer` over `gid`. */
static inline struct ibv_qp_attr good_attr(enum ibv_qp_state state, int gid_index, const union ibv_gid *gid, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.path_mtu = IBV_MTU_1024,
		.qkey = QKEY,
		.rq_psn = 0x111111,
		.sq_psn = 0x111111,
		.dest_qp_num = peer,
		.qp_access_flags = EVERY_ACCESS,
		.ah_attr = { .grh = { .dgid = *gid, .sgid_index = gid_index, .hop_limit = 64 }, .is_global = 1, .port_num = 1 },
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	return attr;
}

/* Takes a queue pair from RESET to a state, connected to `peer`. */
static inline void bring_to(struct ibv_qp *qp, enum ibv_qp_state to, int gid_index, const union ibv_gid *gid, uint32_t peer)
{
	static const enum ibv_qp_state way[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };

	for (int i = 0; i < COUNT(way) && way[i] <= to && to <= IBV_QPS_RTS; i++) {
		struct ibv_qp_attr attr = good_attr(way[i], gid_index, gid, peer);
		NEED(!ibv_modify_qp(qp, &attr, needed_mask(qp->qp_type, way[i])));
	}
}

/* Waits for one completion, at most three seconds. */
static inline int wait_completion(struct ibv_cq *cq, struct ibv_wc *wc)
{
	for (int waited = 0; waited < 3000000; waited += 100) {
		int count = ibv_poll_cq(cq, 1, wc);
		if (count)
			return count;
		usleep(100);
	}
	return 0;
}

#endif
