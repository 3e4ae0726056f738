/* A ledger of every connection that a process tries to make, kept below all of its libraries (LD_PRELOAD).

   Writes "tcp|udp|other <address> <port>" for each connect and each addressed send to CONNECT_LEDGER. Loopback is let
   through, so that listeners there can count; everything else is answered "network unreachable", so that a check can
   use public addresses and nothing ever leaves the machine. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_loopback(const struct sockaddr *place) {
  if (place->sa_family == AF_INET) {
    unsigned address = ntohl(((const struct sockaddr_in *)place)->sin_addr.s_addr);
    return address >> 24 == 127 || address == 0; /* 0.0.0.0 reaches this machine: the listeners shall see it */
  }
  const struct in6_addr *six = &((const struct sockaddr_in6 *)place)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(six)) return six->s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(six) || IN6_IS_ADDR_UNSPECIFIED(six);
}

/* 1: go on. 0: refuse. */
static int note(int socket, const struct sockaddr *place) {
  char address[INET6_ADDRSTRLEN] = "?", line[128];
  int port, kind = 0, saved = errno;
  socklen_t size = sizeof kind;
  if (place == NULL || (place->sa_family != AF_INET && place->sa_family != AF_INET6)) return 1;
  if (place->sa_family == AF_INET) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)place;
    inet_ntop(AF_INET, &four->sin_addr, address, sizeof address);
    port = ntohs(four->sin_port);
  } else {
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)place;
    inet_ntop(AF_INET6, &six->sin6_addr, address, sizeof address);
    port = ntohs(six->sin6_port);
  }
  getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &size);
  const char *word = kind == SOCK_STREAM ? "tcp" : kind == SOCK_DGRAM ? "udp" : "other";
  int length = snprintf(line, sizeof line, "%s %s %d\n", word, address, port);
  const char *path = getenv("CONNECT_LEDGER");
  int ledger = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (ledger < 0 || write(ledger, line, length) != length) abort();
  close(ledger);
  errno = saved;
  return is_loopback(place);
}

int connect(int socket, const struct sockaddr *place, socklen_t size) {
  static int (*real)(int, const struct sockaddr *, socklen_t);
  if (!real) real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
  if (note(socket, place)) return real(socket, place, size);
  errno = ENETUNREACH;
  return -1;
}

ssize_t sendto(int socket, const void *data, size_t length, int flags, const struct sockaddr *place, socklen_t size) {
  static ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
  if (!real)
    real = (ssize_t(*)(int, const void *, size_t, int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "sendto");
  if (place == NULL || note(socket, place)) return real(socket, data, length, flags, place, size);
  errno = ENETUNREACH;
  return -1;
}
