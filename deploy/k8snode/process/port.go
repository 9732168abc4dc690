package process

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// Port is a TCP port of an address that stays reserved between one run of a program and the
// next. It is a socket that is bound and does not listen: no connection reaches it, and
// nobody else gets the port, but a program that sets SO_REUSEPORT can listen there.
type Port struct {
	fd   int
	host string
	port int
}

// Reserve takes a port that the kernel chooses.
func Reserve(host string) (*Port, error) {
	ip := net.ParseIP(host).To4()
	if ip == nil {
		return nil, fmt.Errorf("%s is not an IPv4 address", host)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	p := &Port{fd: fd, host: host}
	if err := p.bind([4]byte(ip)); err != nil {
		return nil, errors.Join(fmt.Errorf("reserve a port of %s: %w", host, err), p.Close())
	}
	return p, nil
}

func (p *Port) bind(ip [4]byte) error {
	for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
		if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, option, 1); err != nil {
			return err
		}
	}
	if err := unix.Bind(p.fd, &unix.SockaddrInet4{Addr: ip}); err != nil {
		return err
	}
	addr, err := unix.Getsockname(p.fd)
	if err != nil {
		return err
	}
	p.port = addr.(*unix.SockaddrInet4).Port
	return nil
}

// Number is the port's.
func (p *Port) Number() string { return strconv.Itoa(p.port) }

// Address is HOST:PORT.
func (p *Port) Address() string { return net.JoinHostPort(p.host, p.Number()) }

// Close gives the port up.
func (p *Port) Close() error { return unix.Close(p.fd) }
