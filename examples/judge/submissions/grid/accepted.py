import sys
from collections import deque


def shortest(grid, height, width):
    steps = {(0, 0): 0}
    queue = deque(steps)
    while queue:
        row, col = queue.popleft()
        for r, c in ((row + 1, col), (row - 1, col), (row, col + 1), (row, col - 1)):
            if 0 <= r < height and 0 <= c < width and grid[r][c] == "." and (r, c) not in steps:
                steps[r, c] = steps[row, col] + 1
                queue.append((r, c))
    return steps.get((height - 1, width - 1), -1)


words = sys.stdin.read().split()
print(shortest(words[2:], int(words[0]), int(words[1])))
