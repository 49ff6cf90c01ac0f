/* Names and rates: functions that need no device. */
#include <infiniband/verbs.h>
#include <stdio.h>

static const int mults[] = { -1, 0, 1, 2, 4, 8, 10, 11, 12, 16, 20, 24, 32, 48, 160, 240, 320, 480 };
static const int mbps[] = { -1,	   0,	  2500,	 5000,	10000,	20000,	30000,	40000,	60000,	80000, 120000, 14062, 56250,
			    112500, 168750, 25781, 103125, 206250, 309375, 28125, 53125, 425000, 637500, 850000, 1275000 };
#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

int main(void)
{
	for (int i = -2; i < 26; i++) {
		printf("node type %d: %s\n", i, ibv_node_type_str(i));
		printf("port state %d: %s\n", i, ibv_port_state_str(i));
		printf("event type %d: %s\n", i, ibv_event_type_str(i));
		printf("wc status %d: %s\n", i, ibv_wc_status_str(i));
		printf("rate %d: mult %d, mbps %d\n", i, ibv_rate_to_mult(i), ibv_rate_to_mbps(i));
	}
	for (int i = 0; i < COUNT(mults); i++)
		printf("mult %d: rate %d\n", mults[i], mult_to_ibv_rate(mults[i]));
	for (int i = 0; i < COUNT(mbps); i++)
		printf("mbps %d: rate %d\n", mbps[i], mbps_to_ibv_rate(mbps[i]));
	return 0;
}
