// Package testport gives tests ports of loopback for programs that they start, end and start
// again.
package testport

import (
	"fmt"
	"syscall"
	"testing"
)

// Addr is HOST:PORT for a program, and nobody else's until the test ends: a socket that is bound
// there and never listens keeps the kernel from giving the port to others, also while the
// program is down, and lets the program listen if it sets SO_REUSEADDR, as Go and Java do.
func Addr(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*syscall.SockaddrInet4).Port)
}
