#include <stdio.h>

static char grid[202][203];
static int height, width, best = -1;

/* Tries every path that does not cross itself. */
static void walk(int row, int col, int steps) {
    if (grid[row][col] != '.') return;
    if (row == height && col == width) {
        if (best < 0 || steps < best) best = steps;
        return;
    }
    grid[row][col] = '#';
    walk(row + 1, col, steps + 1);
    walk(row, col + 1, steps + 1);
    walk(row - 1, col, steps + 1);
    walk(row, col - 1, steps + 1);
    grid[row][col] = '.';
}

int main(void) {
    if (scanf("%d %d", &height, &width) != 2) return 1;
    for (int r = 1; r <= height; r++)
        if (scanf("%200s", grid[r] + 1) != 1) return 1;
    walk(1, 1, 0);
    printf("%d\n", best);
    return 0;
}
