#include <stdio.h>

enum { MOST = 200 };

static char grid[MOST][MOST + 2];
static int steps[MOST][MOST], queue[MOST * MOST][2];

int main(void) {
    int height, width, head = 0, tail = 1;
    if (scanf("%d %d", &height, &width) != 2) return 1;
    for (int r = 0; r < height; r++)
        if (scanf("%200s", grid[r]) != 1) return 1;
    steps[0][0] = 1; /* one more than the distance; 0 means not seen */
    while (head < tail) {
        int row = queue[head][0], col = queue[head][1];
        static const int move[4][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
        head++;
        for (int m = 0; m < 4; m++) {
            int r = row + move[m][0], c = col + move[m][1];
            if (r < 0 || c < 0 || r >= height || c >= width) continue;
            if (grid[r][c] == '#' || steps[r][c]) continue;
            steps[r][c] = steps[row][col] + 1;
            queue[tail][0] = r;
            queue[tail++][1] = c;
        }
    }
    printf("%d\n", steps[height - 1][width - 1] - 1);
    return 0;
}
