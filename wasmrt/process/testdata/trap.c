// A guest that traps three calls deep.
static volatile int divisor;

__attribute__((noinline)) static int divide(int n) {
	return n / divisor; // line 5
}

__attribute__((noinline)) static int twice(int n) {
	return divide(n) + divide(n + 1); // line 9
}

int main(int argc, char **argv) {
	return twice(argc); // line 13
}
