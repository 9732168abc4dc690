package server

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/quota"
)

// wildcards are the hosts that mean every address.
var wildcards = []string{"", "0.0.0.0", "::"}

// Kafka's security protocols.
const (
	plaintext = "PLAINTEXT"
	overTLS   = "SSL"
)

var protocols = []string{plaintext, overTLS, "SASL_PLAINTEXT", "SASL_SSL"}

// usesSASL reports whether who connects with a protocol has to authenticate by SASL.
func usesSASL(protocol string) bool { return strings.HasPrefix(protocol, "SASL_") }

var listenerName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// endpoints parses a listener list such as PLAINTEXT://:9092,INSIDE://10.0.0.1:9093.
func endpoints(s string, needHost bool) ([]Endpoint, error) {
	var out []Endpoint
	for part := range strings.SplitSeq(s, ",") {
		ep, err := endpoint(strings.TrimSpace(part))
		switch {
		case err != nil:
			return nil, err
		case needHost && slices.Contains(wildcards, ep.Host):
			return nil, fmt.Errorf("%q names no host that a client could connect to", part)
		case needHost && ep.Port == 0:
			return nil, fmt.Errorf("%q names no port that a client could connect to", part)
		case endpointNamed(out, ep.Name) != nil:
			return nil, fmt.Errorf("listener %s stands twice", ep.Name)
		}
		out = append(out, ep)
	}
	return out, nil
}

// endpoint parses one listener. As in Kafka, names are the same in upper and lower case, and
// an IPv6 address need not stand in brackets.
func endpoint(s string) (Endpoint, error) {
	name, addr, ok := strings.Cut(s, "://")
	if !ok || !listenerName.MatchString(name) {
		return Endpoint{}, fmt.Errorf("%q is not NAME://HOST:PORT", s)
	}
	host, port, err := net.SplitHostPort(addr)
	if last := strings.LastIndexByte(addr, ':'); err != nil && last > 0 && bareIPv6(addr[:last]) {
		host, port, err = addr[:last], addr[last+1:], nil
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("%q is not NAME://HOST:PORT", s)
	}
	n, err := portOf(port)
	if err != nil {
		return Endpoint{}, fmt.Errorf("%q: %w", s, err)
	}
	return Endpoint{Name: strings.ToUpper(name), Host: host, Port: n}, nil
}

func bareIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6()
}

// portOf reads a port. Two numbers may be added: where each broker has its own, one setting
// says so for all of them, 31090+NODE_ID.
func portOf(s string) (int32, error) {
	first, more, sum := strings.Cut(s, "+")
	if !sum {
		more = "0"
	}
	a, err := strconv.ParseUint(first, 10, 16)
	b, berr := strconv.ParseUint(more, 10, 31)
	if errors.Join(err, berr) != nil || a+b > math.MaxUint16 {
		return 0, fmt.Errorf("port %q is not a number from 0 to 65535", s)
	}
	return int32(a + b), nil
}

func endpointNamed(eps []Endpoint, name string) *Endpoint {
	if i := slices.IndexFunc(eps, func(e Endpoint) bool { return e.Name == name }); i >= 0 {
		return &eps[i]
	}
	return nil
}

func setListeners(c *Config, s string) (err error) {
	c.Listeners, err = endpoints(s, false)
	return err
}

func setAdvertised(c *Config, s string) (err error) {
	if strings.TrimSpace(s) == "" {
		c.Advertised = nil
		return nil
	}
	c.Advertised, err = endpoints(s, true)
	return err
}

func setServices(c *Config, s string) (err error) {
	c.Services = nil
	if strings.TrimSpace(s) != "" {
		c.Services, err = endpoints(s, true)
	}
	return err
}

func setProtocols(c *Config, s string) error {
	c.protocols = map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, protocol, ok := strings.Cut(part, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if !ok || !listenerName.MatchString(name) || !slices.Contains(protocols, protocol) {
			return fmt.Errorf("%q is not NAME:PROTOCOL with a protocol of %s", part, strings.Join(protocols, ", "))
		}
		c.protocols[name] = protocol
	}
	return nil
}

func setInterBroker(c *Config, s string) error {
	c.InterBroker = strings.ToUpper(strings.TrimSpace(s))
	return nil
}

func setBetweenProtocol(c *Config, s string) error {
	c.betweenSec = strings.ToUpper(strings.TrimSpace(s))
	if !slices.Contains(protocols, c.betweenSec) {
		return fmt.Errorf("%q is not one of %s", s, strings.Join(protocols, ", "))
	}
	return nil
}

// setBetween finds the listener that brokers use among themselves.
func (c *Config) setBetween() (key string, err error) {
	const byProtocol = "security.inter.broker.protocol"
	given := c.settings[byProtocol].source != ""
	switch {
	case given && c.InterBroker != "":
		return byProtocol, errors.New("and inter.broker.listener.name: only one of them can be")
	case given && endpointNamed(c.Listeners, c.betweenSec) == nil:
		return byProtocol, fmt.Errorf("listeners has none that is called %s", c.betweenSec)
	case given:
		c.InterBroker = c.betweenSec
	case c.InterBroker == "":
		c.InterBroker = c.Listeners[0].Name
	}
	return "", nil
}

// checkListeners judges the keys about listeners together, and names the one to blame.
func checkListeners(c *Config) (key string, err error) {
	for i := range c.Listeners {
		ep := &c.Listeners[i]
		if ep.Protocol = c.protocolOf(ep.Name); ep.Protocol == "" {
			return "listeners", fmt.Errorf("listener %s has no protocol in listener.security.protocol.map", ep.Name)
		}
		if key, err := c.setTLS(ep); err != nil {
			return key, err
		}
		c.setConnections(ep)
	}
	for _, told := range []struct {
		key string
		eps []Endpoint
	}{{"advertised.listeners", c.Advertised}, {"advertised.services", c.Services}} {
		for _, ep := range told.eps {
			if endpointNamed(c.Listeners, ep.Name) == nil {
				return told.key, fmt.Errorf("listeners has none that is called %s", ep.Name)
			}
		}
	}
	for _, ep := range c.Services {
		if endpointNamed(c.Advertised, ep.Name) != nil {
			return "advertised.services", fmt.Errorf("advertised.listeners has %s, too", ep.Name)
		}
	}
	if key, err := c.setBetween(); err != nil {
		return key, err
	}
	if endpointNamed(c.Listeners, c.InterBroker) == nil {
		return "inter.broker.listener.name", fmt.Errorf("listeners has none that is called %s", c.InterBroker)
	}
	return "", nil
}

// setConnections reads what a listener itself bounds of its connections.
func (c *Config) setConnections(ep *Endpoint) {
	own := c.clone()
	own.MaxConnections, own.MaxConnectionRate = math.MaxInt64, quota.Unlimited
	own = own.at(ep.Name, "")
	ep.most, ep.rate = own.MaxConnections, own.MaxConnectionRate
}

// protocolOf is a listener's security protocol, which may be its name, or "".
func (c *Config) protocolOf(listener string) string {
	if p := c.protocols[listener]; p != "" || !slices.Contains(protocols, listener) {
		return p
	}
	return listener
}

// advertisesUsed reports whether a listener's clients are told the address that they
// connected to.
func (c *Config) advertisesUsed(l *Endpoint) bool {
	return endpointNamed(c.Advertised, l.Name) == nil && slices.Contains(wildcards, l.Host)
}

// advertised is what the cluster is told of how this broker is reached: through its
// listeners, which are bound to these ports.
func (c *Config) advertised(hostname string, ports []int32) (out []projections.Listener) {
	for i := range c.Listeners {
		ep := &c.Listeners[i]
		l := projections.Listener{Name: ep.Name, Host: ep.Host, Port: ports[i]}
		if a := endpointNamed(c.Advertised, ep.Name); a != nil {
			l.Host, l.Port = a.Host, a.Port
		} else if c.advertisesUsed(ep) {
			l.Host = hostname
		}
		out = append(out, l)
	}
	return out
}
