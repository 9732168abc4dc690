package server

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// setPerIP parses ADDRESS:NUMBER pairs. Kafka takes names of hosts, too; what such a name
// stands for would be looked up once, and by each broker for itself.
func setPerIP(c *Config, s string) error {
	c.PerIP = map[netip.Addr]int64{}
	for pair := range strings.SplitSeq(s, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		host, count, err := net.SplitHostPort(strings.TrimSpace(pair))
		addr, err1 := netip.ParseAddr(host)
		n, err2 := strconv.ParseInt(strings.TrimSpace(count), 10, 32)
		if errors.Join(err, err1, err2) != nil || n < 0 {
			return fmt.Errorf("%q is not ADDRESS:NUMBER", pair)
		}
		c.PerIP[addr.Unmap().WithZone("")] = n
	}
	return nil
}

// checkPerIP refuses to keep everybody out.
func checkPerIP(c *Config) (key string, err error) {
	if c.MaxPerIP == 0 && len(c.PerIP) == 0 {
		return "max.connections.per.ip", errors.New("0 is for when max.connections.per.ip.overrides lets somebody in")
	}
	return "", nil
}

// mostFrom is how many connections an address may have. Who has come to keep everybody out
// could not take it back.
func (c *Config) mostFrom(addr netip.Addr) int64 {
	if c.MaxPerIP == 0 && len(c.PerIP) == 0 {
		return math.MaxInt64
	}
	if n, ok := c.PerIP[addr]; ok {
		return n
	}
	return c.MaxPerIP
}

// addressOf is whom a connection comes from.
func addressOf(nc net.Conn) netip.Addr {
	a, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr().Unmap().WithZone("")
}
