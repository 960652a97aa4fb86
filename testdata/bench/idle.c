// Waits for the end of its input. With an argument it takes all the memory that it may have first, without touching it.
#include <unistd.h>

int main(int argc, char **argv) {
	char byte;
	if (argc > 1) {
		while (__builtin_wasm_memory_grow(0, 1) != (unsigned long)-1) {
		}
		write(1, "full\n", 5);
	}
	return read(0, &byte, 1) != 0;
}
