# Counts up one by one, which takes too long for the third case.
a, b = map(int, input().split())
step = 1 if b > 0 else -1
for _ in range(abs(b)):
    a += step
print(a)
