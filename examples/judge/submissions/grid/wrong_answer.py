# Moves right and down only, which is not enough once a path must turn back.
import sys

words = sys.stdin.read().split()
height, width, grid = int(words[0]), int(words[1]), words[2:]
far = float("inf")
steps = [[far] * width for _ in range(height)]
steps[0][0] = 0
for r in range(height):
    for c in range(width):
        if grid[r][c] == "#":
            steps[r][c] = far
            continue
        if r:
            steps[r][c] = min(steps[r][c], steps[r - 1][c] + 1)
        if c:
            steps[r][c] = min(steps[r][c], steps[r][c - 1] + 1)
answer = steps[-1][-1]
print(-1 if answer == far else answer)
