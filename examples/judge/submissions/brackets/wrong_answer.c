#include <stdio.h>

/* Counts depth without looking at the kind of bracket. */
int main(void) {
    static char line[100002];
    int n;
    if (scanf("%d", &n) != 1) return 1;
    while (n-- > 0) {
        if (scanf("%100001s", line) != 1) return 1;
        int depth = 0, i;
        for (i = 0; line[i] && depth >= 0; i++)
            depth += line[i] == '(' || line[i] == '[' || line[i] == '{' ? 1 : -1;
        if (depth) printf("error at %d\n", depth < 0 ? i : i + 1);
        else puts("balanced");
    }
    return 0;
}
