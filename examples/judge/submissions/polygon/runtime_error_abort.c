#include <assert.h>
#include <stdio.h>

/* Made for triangles and squares, and says so. */
int main(void) {
    int n;
    if (scanf("%d", &n) != 1) return 1;
    assert(n > 4);
    return 0;
}
