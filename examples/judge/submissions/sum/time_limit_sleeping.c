#include <stdio.h>
#include <unistd.h>

/* Uses no processor time at all: only the wall clock can catch it. */
int main(void) {
    puts("thinking");
    for (;;) pause();
}
