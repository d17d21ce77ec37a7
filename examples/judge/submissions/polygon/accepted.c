#include <math.h>
#include <stdio.h>

int main(void) {
    int n;
    static double x[1001], y[1001];
    if (scanf("%d", &n) != 1 || n > 1000) return 1;
    for (int i = 0; i < n; i++)
        if (scanf("%lf %lf", &x[i], &y[i]) != 2) return 1;
    x[n] = x[0];
    y[n] = y[0];
    double perimeter = 0, area = 0;
    for (int i = 0; i < n; i++) {
        perimeter += hypot(x[i + 1] - x[i], y[i + 1] - y[i]);
        area += x[i] * y[i + 1] - y[i] * x[i + 1];
    }
    printf("%.8e\n%.8e\n", perimeter, fabs(area) / 2);
    return 0;
}
