/* The port, its GIDs and its partition keys; what they are is the device's, what is refused is not. */
#include "common.h"
#include <arpa/inet.h>

int main(int argc, char **argv)
{
	struct ibv_context *context = open_context(argc, argv);
	struct ibv_gid_entry entry, entries[256];
	struct ibv_port_attr port;
	struct ibv_device_attr device;
	union ibv_gid gid, same;
	int index = ipv4_gid(context, &gid), length, filled = 0, agreed = 0;
	ssize_t count;
	__be16 pkey;

	STATUS(ibv_query_device(context, &device));
	printf("ports %d, guid %d, vendor %d\n", device.phys_port_cnt, device.node_guid != 0, device.sys_image_guid != 0);
	printf("guid of the device is that of the list: %d\n", device.node_guid == ibv_get_device_guid(context->device));
	STATUS(ibv_query_port(context, 0, &port));
	STATUS(ibv_query_port(context, 2, &port));
	STATUS(ibv_query_port(context, 1, &port));
	printf("state %s, link layer %d, phys_state %d, lid %d, flags %d, pkeys %d\n", ibv_port_state_str(port.state),
	       port.link_layer, port.phys_state, port.lid, port.flags, port.pkey_tbl_len);
	length = port.gid_tbl_len;
	STATUS(ibv_query_gid(context, 1, index, &same));
	printf("same GID %d\n", !memcmp(&gid, &same, sizeof(gid)));
	RESULT(ibv_query_gid(context, 0, 0, &same));
	RESULT(ibv_query_gid(context, 2, 0, &same));
	RESULT(ibv_query_gid(context, 1, -1, &same));
	printf("behind the table: %d\n", ibv_query_gid(context, 1, length, &same));
	STATUS(ibv_query_gid_ex(context, 1, index, &entry, 0));
	printf("index %d, port %d, interface %d\n", entry.gid_index == index, entry.port_num, entry.ndev_ifindex != 0);
	STATUS(ibv_query_gid_ex(context, 0, 0, &entry, 0));
	STATUS(ibv_query_gid_ex(context, 2, 0, &entry, 0));
	printf("behind the table: %s\n", error_name(ibv_query_gid_ex(context, 1, length, &entry, 0)));
	STATUS(ibv_query_gid_ex(context, 1, index, &entry, 1));
	for (int i = 0; i < length; i++)
		filled += !ibv_query_gid_ex(context, 1, i, &entry, 0);
	for (int i = 0; i < length; i++) {
		int error = ibv_query_gid_ex(context, 1, i, &entry, 0);
		if (error && error != ENODATA)
			printf("entry %d: %s\n", i, error_name(error));
	}
	count = ibv_query_gid_table(context, entries, COUNT(entries), 0);
	printf("the table has as many as the entries: %d\n", count == filled);
	for (int i = 0; i < count; i++)
		agreed += !ibv_query_gid_ex(context, 1, entries[i].gid_index, &entry, 0) &&
			  !memcmp(&entry, &entries[i], sizeof(entry));
	printf("and they agree: %d\n", agreed == count);
	printf("no room: %zd\n", ibv_query_gid_table(context, entries, 0, 0));
	printf("flags: %zd\n", ibv_query_gid_table(context, entries, COUNT(entries), 1));
	RESULT(ibv_query_pkey(context, 1, 0, &pkey));
	printf("pkey %04x, its index %d\n", ntohs(pkey), ibv_get_pkey_index(context, 1, pkey));
	RESULT(ibv_query_pkey(context, 1, 1, &pkey));
	RESULT(ibv_query_pkey(context, 2, 0, &pkey));
	RESULT(ibv_get_pkey_index(context, 1, htons(0x1234)));
	return 0;
}
