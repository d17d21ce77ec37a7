#include <stdio.h>
#include <string.h>

#define MOST 100001

static char line[MOST + 1], stack[MOST];

/* Returns 0 if the line is balanced, else the position of the first error. */
static int check(void) {
    int depth = 0, i;
    for (i = 0; line[i]; i++) {
        const char *shut = strchr(")]}", line[i]);
        if (!shut)
            stack[depth++] = line[i] == '(' ? ')' : line[i] == '[' ? ']' : '}';
        else if (depth == 0 || stack[--depth] != line[i])
            return i + 1;
    }
    return depth ? i + 1 : 0;
}

int main(void) {
    int n;
    if (scanf("%d", &n) != 1) return 1;
    while (n-- > 0) {
        if (scanf("%100001s", line) != 1) return 1;
        int at = check();
        if (at) printf("error at %d\n", at);
        else puts("balanced");
    }
    return 0;
}
