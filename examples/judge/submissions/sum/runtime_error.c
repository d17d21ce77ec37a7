#include <stdio.h>

/* Writes through a null pointer when the sum is zero. */
int main(void) {
    long long a, b, sum = 0;
    if (scanf("%lld %lld", &a, &b) != 2) return 1;
    volatile long long *where = a + b == 0 ? NULL : &sum;
    *where = a + b;
    printf("%lld\n", *where);
    return 0;
}
