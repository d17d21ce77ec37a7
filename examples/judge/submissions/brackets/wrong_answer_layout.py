# Right answers in the wrong layout: the exact checker minds the blank.
PAIRS = {")": "(", "]": "[", "}": "{"}
for _ in range(int(input())):
    line, stack, verdict = input(), [], None
    for position, char in enumerate(line, 1):
        if char not in PAIRS:
            stack.append(char)
        elif not stack or stack.pop() != PAIRS[char]:
            verdict = f"error at {position}"
            break
    print(verdict or (f"error at {len(line) + 1}" if stack else "balanced"), "")
