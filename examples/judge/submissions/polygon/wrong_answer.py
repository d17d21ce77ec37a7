# Leaves out the edge from the last point back to the first.
import math

points = [tuple(map(float, input().split())) for _ in range(int(input()))]
edges = list(zip(points, points[1:]))
print(sum(math.dist(a, b) for a, b in edges))
print(abs(sum(a[0] * b[1] - a[1] * b[0] for a, b in edges)) / 2)
