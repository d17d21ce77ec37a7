# Asks for 8 GB at once, which is refused before a byte of it is used.
line_count = int(input())
table = [0] * 10**9
print(line_count, len(table))
