// hello greets, and tells where it runs and what it was given.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// host_name reads the pod's name where Linux has it, or in the environment.
static void host_name(char *name, int size) {
	const char *variable = getenv("HOSTNAME");
	FILE *file = fopen("/etc/hostname", "r");
	if (!file || !fgets(name, size, file))
		snprintf(name, size, "%s", variable ? variable : "without a name");
	if (file)
		fclose(file);
	name[strcspn(name, "\n")] = 0;
}

int main(int argc, char **argv) {
	char name[256];
	host_name(name, sizeof name);
	printf("Hello from edgepod!\nThis is a WebAssembly module in the pod %s.\n", name);
	for (int i = 1; i < argc; i++)
		printf("Argument %d is %s.\n", i, argv[i]);
	return fflush(stdout) != 0;
}
