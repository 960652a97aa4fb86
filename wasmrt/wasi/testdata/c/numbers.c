// Prints what comes of arithmetic of every kind, so that engines can be compared.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static double number(void) {
	uint64_t bits = next();
	double d;
	memcpy(&d, &bits, sizeof d);
	return isnan(d) ? 1.5 : d;
}

static void integers(void) {
	uint64_t sum = 0;
	for (int i = 0; i < 200000; i++) {
		uint64_t a = next(), b = next() | 1;
		int64_t sa = (int64_t)a, sb = (int64_t)(b >> 1 | 1);
		uint32_t x = (uint32_t)a, y = (uint32_t)b;
		sum += a / b + a % b + (uint64_t)(sa / sb) + (uint64_t)(sa % sb) + (a << (b & 63)) + (uint64_t)(sa >> (b & 63));
		sum ^= (uint64_t)__builtin_clzll(b) << 7 ^ (uint64_t)__builtin_ctzll(b) << 3 ^ (uint64_t)__builtin_popcountll(a);
		sum += x / y + (x >> (y & 31)) + (uint64_t)(int64_t)(int8_t)x + (uint64_t)(int64_t)(int16_t)y + (a >> 17 | a << 47);
	}
	printf("integers %016" PRIx64 "\n", sum);
}

static void floats(void) {
	double sum = 0;
	float small = 0;
	int64_t whole = 0;
	for (int i = 0; i < 50000; i++) {
		double a = number(), b = (double)(int32_t)next() / 65536;
		double c = sqrt(fabs(b)) + floor(b) + ceil(b) + trunc(b) + rint(b) + fmin(b, 3) + fmax(b, -3) + copysign(b, a);
		sum += c + sin(b) + exp(b / 65536) + pow(fabs(b), 0.3);
		small = small / 2 + (float)b * 1.25f;
		if (fabs(a) < 1e15)
			whole += (int64_t)a;
		whole += (int64_t)b + (int64_t)(uint64_t)fabs(b);
	}
	printf("floats %a %a %" PRId64 "\n", sum, (double)small, whole);
}

typedef int32_t lanes __attribute__((vector_size(16)));
typedef float reals __attribute__((vector_size(16)));

static void vectors(void) {
	lanes v = {1, 2, 3, 4}, total = {0};
	reals r = {0.5f, 1.5f, 2.5f, 3.5f};
	for (int i = 0; i < 100000; i++) {
		uint64_t n = next();
		lanes w = {(int32_t)n, (int32_t)(n >> 32), i, -i};
		v = (v * w) ^ (v >> 3) ^ (w << 2);
		total += __builtin_shufflevector(v, w, 3, 4, 1, 6);
		r = r * 0.999f + __builtin_convertvector(w >> 20, reals);
	}
	printf("vectors %08x %08x %08x %08x", total[0], total[1], total[2], total[3]);
	printf(" %a %a %a %a\n", (double)r[0], (double)r[1], (double)r[2], (double)r[3]);
}

static int compare(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

static void memory(void) {
	enum { count = 100000 };
	uint32_t *list = malloc(count * sizeof *list), hash = 2166136261u;
	for (int i = 0; i < count; i++)
		list[i] = (uint32_t)next();
	qsort(list, count, sizeof *list, compare);
	memmove(list + 7, list, (count - 7) * sizeof *list);
	for (int i = 0; i < count; i++)
		hash = (hash ^ list[i]) * 16777619u;
	free(list);
	printf("memory %08x\n", hash);
}

int main(void) {
	integers();
	floats();
	vectors();
	memory();
	return 0;
}
