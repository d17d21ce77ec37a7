PAIRS = {")": "(", "]": "[", "}": "{"}


def check(line):
    stack = []
    for position, char in enumerate(line, 1):
        if char not in PAIRS:
            stack.append(char)
        elif not stack or stack.pop() != PAIRS[char]:
            return f"error at {position}"
    return f"error at {len(line) + 1}" if stack else "balanced"


for _ in range(int(input())):
    print(check(input()))
