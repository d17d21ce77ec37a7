#include <math.h>
#include <stdio.h>

/* Single precision loses the area of a small square far from the origin. */
int main(void) {
    int n;
    static float x[1001], y[1001];
    if (scanf("%d", &n) != 1 || n > 1000) return 1;
    for (int i = 0; i < n; i++)
        if (scanf("%f %f", &x[i], &y[i]) != 2) return 1;
    x[n] = x[0];
    y[n] = y[0];
    double perimeter = 0;
    volatile float area = 0;
    for (int i = 0; i < n; i++) {
        perimeter += hypot(x[i + 1] - x[i], y[i + 1] - y[i]);
        area += x[i] * y[i + 1];
        area -= y[i] * x[i + 1];
    }
    printf("%.9f %.9f\n", perimeter, fabs(area) / 2);
    return 0;
}
