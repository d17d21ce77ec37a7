a, b = map(int, input().split())
print(a + b + 0 // (a + b))
