/* Translations of the kernel's structures: every byte of the source is different, and every field of the result is printed. */
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <string.h>

/* No header declares these; librdmacm calls them. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

static void fill(void *object, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((unsigned char *)object)[i] = i + 1;
}

static void print(const char *name, const void *field, size_t size)
{
	printf("%s", name);
	for (size_t i = 0; i < size; i++)
		printf(" %02x", ((const unsigned char *)field)[i]);
	printf("\n");
}

#define PRINT(object, field) print(#field, &(object).field, sizeof((object).field))

static void print_ah(struct ibv_ah_attr *attr)
{
	PRINT(*attr, grh.dgid);
	PRINT(*attr, grh.flow_label);
	PRINT(*attr, grh.sgid_index);
	PRINT(*attr, grh.hop_limit);
	PRINT(*attr, grh.traffic_class);
	PRINT(*attr, dlid);
	PRINT(*attr, sl);
	PRINT(*attr, src_path_bits);
	PRINT(*attr, static_rate);
	PRINT(*attr, is_global);
	PRINT(*attr, port_num);
}

static void qp_attr(void)
{
	struct ib_uverbs_qp_attr kernel;
	struct ibv_qp_attr attr;

	fill(&kernel, sizeof(kernel));
	memset(&attr, 0xee, sizeof(attr));
	ibv_copy_qp_attr_from_kern(&attr, &kernel);
	PRINT(attr, qp_state);
	PRINT(attr, cur_qp_state);
	PRINT(attr, path_mtu);
	PRINT(attr, path_mig_state);
	PRINT(attr, qkey);
	PRINT(attr, rq_psn);
	PRINT(attr, sq_psn);
	PRINT(attr, dest_qp_num);
	PRINT(attr, qp_access_flags);
	PRINT(attr, cap);
	print_ah(&attr.ah_attr);
	print_ah(&attr.alt_ah_attr);
	PRINT(attr, pkey_index);
	PRINT(attr, alt_pkey_index);
	PRINT(attr, en_sqd_async_notify);
	PRINT(attr, sq_draining);
	PRINT(attr, max_rd_atomic);
	PRINT(attr, max_dest_rd_atomic);
	PRINT(attr, min_rnr_timer);
	PRINT(attr, port_num);
	PRINT(attr, timeout);
	PRINT(attr, retry_cnt);
	PRINT(attr, rnr_retry);
	PRINT(attr, alt_port_num);
	PRINT(attr, alt_timeout);
	PRINT(attr, rate_limit);
}

static void ah_attr(void)
{
	struct ib_uverbs_ah_attr kernel;
	struct ibv_ah_attr attr;

	fill(&kernel, sizeof(kernel));
	memset(&attr, 0xee, sizeof(attr));
	ibv_copy_ah_attr_from_kern(&attr, &kernel);
	print_ah(&attr);
}

static void path_rec(void)
{
	struct ib_user_path_rec kernel, back;
	struct ibv_sa_path_rec path;

	fill(&kernel, sizeof(kernel));
	memset(&path, 0xee, sizeof(path));
	memset(&back, 0xee, sizeof(back));
	ibv_copy_path_rec_from_kern(&path, &kernel);
	ibv_copy_path_rec_to_kern(&back, &path);
	PRINT(path, dgid);
	PRINT(path, sgid);
	PRINT(path, dlid);
	PRINT(path, slid);
	PRINT(path, raw_traffic);
	PRINT(path, flow_label);
	PRINT(path, hop_limit);
	PRINT(path, traffic_class);
	PRINT(path, reversible);
	PRINT(path, numb_path);
	PRINT(path, pkey);
	PRINT(path, sl);
	PRINT(path, mtu_selector);
	PRINT(path, mtu);
	PRINT(path, rate_selector);
	PRINT(path, rate);
	PRINT(path, packet_life_time_selector);
	PRINT(path, packet_life_time);
	PRINT(path, preference);
	print("back", &back, sizeof(back));
}

int main(void)
{
	qp_attr();
	ah_attr();
	path_rec();
	return 0;
}
