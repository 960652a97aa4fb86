#include <stdio.h>

int main(int argc, char **argv) {
	printf("compiled in a pod, run with %d argument%s\n", argc - 1, argc == 2 ? "" : "s");
	return 0;
}
