/* Looks symbols up as programs do that open the library at run time: by name and version. Not for the genuine library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

static const char *const names[] = {
	"ibv_get_device_list", "ibv_free_device_list", "ibv_get_device_name", "ibv_open_device", "ibv_close_device",
	"ibv_get_async_event", "ibv_ack_async_event",  "ibv_query_device",    "ibv_query_port",	 "ibv_query_gid",
	"ibv_query_qp",	       "ibv_alloc_pd",	       "ibv_dealloc_pd",      "ibv_reg_mr",	 "ibv_dereg_mr",
	"ibv_create_cq",       "ibv_destroy_cq",       "ibv_create_qp",	      "ibv_modify_qp",	 "ibv_destroy_qp",
};

int main(int argc, char **argv)
{
	void *library = dlopen(argc > 1 ? argv[1] : "libibverbs.so.1", RTLD_NOW);
	if (!library) {
		printf("%s\n", dlerror());
		return 1;
	}
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *new = dlvsym(library, names[i], "IBVERBS_1.1");
		void *old = dlvsym(library, names[i], "IBVERBS_1.0");
		if (!new || !old || new == old || new != dlsym(library, names[i])) {
			printf("%s: 1.1 %p, 1.0 %p\n", names[i], new, old);
			return 1;
		}
	}
	printf("all found, old and new differ\n");
	return 0;
}
