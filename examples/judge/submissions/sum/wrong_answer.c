#include <stdio.h>

/* Keeps only 32 bits of the sum, so it fails once the numbers are large. */
int main(void) {
    long long a, b;
    if (scanf("%lld %lld", &a, &b) != 2) return 1;
    printf("%d\n", (int)(unsigned)(a + b));
    return 0;
}
