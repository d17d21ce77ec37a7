#include <stdio.h>
#include <stdlib.h>

struct cell {
    int row, col, steps;
    struct cell *next;
};

/* Searches breadth first and does not remember where it has been. */
int main(void) {
    static char grid[202][203];
    int height, width;
    if (scanf("%d %d", &height, &width) != 2) return 1;
    for (int r = 1; r <= height; r++)
        if (scanf("%200s", grid[r] + 1) != 1) return 1;
    struct cell *first = calloc(1, sizeof *first), *last = first;
    first->row = first->col = 1;
    while (first && (first->row != height || first->col != width)) {
        static const int move[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
        for (int m = 0; m < 4; m++) {
            int r = first->row + move[m][0], c = first->col + move[m][1];
            if (grid[r][c] != '.') continue;
            last = last->next = malloc(sizeof *last);
            *last = (struct cell){r, c, first->steps + 1, NULL};
        }
        first = first->next;
    }
    printf("%d\n", first ? first->steps : -1);
    return 0;
}
