# One call for each level of nesting: deep input exceeds Python's limit.
PAIRS = {"(": ")", "[": "]", "{": "}"}


def group(line, at):
    while at < len(line) and line[at] in PAIRS:
        end = group(line, at + 1)
        if end < 0 or end >= len(line) or line[end] != PAIRS[line[at]]:
            return end if end < 0 else -1 - end
        at = end + 1
    return at


for _ in range(int(input())):
    line = input()
    end = group(line, 0)
    if end == len(line):
        print("balanced")
    else:
        print("error at", -end if end < 0 else end + 1)
