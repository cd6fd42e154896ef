/* launch OUTFILE cmd args...: runs cmd and writes "maxrss_kb utime stime" to OUTFILE.
 *
 * A parent this small is what makes ru_maxrss the child's own: a child forked from the Python
 * harness would start with the harness's resident size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval time) {
  return time.tv_sec + time.tv_usec / 1e6;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: launch OUTFILE cmd args...\n");
    return 2;
  }
  pid_t child = fork();
  if (child == 0) {
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  int status = 0;
  struct rusage usage;
  if (child < 0 || wait4(child, &status, 0, &usage) < 0) {
    perror("launch");
    return 1;
  }
  FILE *out = fopen(argv[1], "w");
  if (out == NULL) {
    perror(argv[1]);
    return 1;
  }
  fprintf(out, "%ld %f %f\n", usage.ru_maxrss, seconds(usage.ru_utime), seconds(usage.ru_stime));
  fclose(out);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
