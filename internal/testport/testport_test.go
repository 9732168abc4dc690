package testport

import (
	"net"
	"testing"
)

// TestAddr listens at an address, ends, and listens again; nobody is given the port meanwhile.
func TestAddr(t *testing.T) {
	addr := Addr(t)
	for range 2 {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		if other := Addr(t); other == addr {
			t.Fatalf("%s is given away twice", addr)
		}
	}
}
