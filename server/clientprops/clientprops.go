package clientprops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/magiconair/properties"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/hostfile"
	"kaas.dev/kaas/server/auth/jaas"
	"kaas.dev/kaas/server/auth/login"
	"kaas.dev/kaas/server/tlsconf"
)

// The keys that are not of TLS or of tokens.
const (
	protocolKey  = "security.protocol"
	mechanismKey = "sasl.mechanism"
	jaasKey      = "sasl.jaas.config"
	clientIDKey  = "client.id"
	setupKey     = "socket.connection.setup.timeout.ms"
)

// own are those keys, with their defaults.
var own = map[string]string{protocolKey: "PLAINTEXT", mechanismKey: "", jaasKey: "", clientIDKey: "", setupKey: "10000"}

// plugins are keys for classes that are to be loaded, which nothing here does. Who gives one
// means something that would not happen.
var plugins = []string{"sasl.client.callback.handler.class", "sasl.login.class", "ssl.engine.factory.class", "security.providers", "ssl.provider",
	"sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class"}

// ofServers are keys of TLS that mean nothing to a client.
var ofServers = []string{"ssl.client.auth", "ssl.principal.mapping.rules"}

// fileMax is more than any such file has.
const fileMax = 1 << 20

// Client is how to reach brokers, checked.
type Client struct {
	// Notes are what deserves a warning: keys that are not used, and the like.
	Notes []string

	tls     *tlsconf.Settings // nil without
	login   *login.Settings   // nil without
	id      string
	timeout time.Duration
}

// Load reads a properties file. Errors name it.
func Load(file string) (*Client, error) {
	b, err := hostfile.Read(file, fileMax)
	if err != nil {
		return nil, err
	}
	// ${…} is not expanded: a value means what it says.
	l := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := l.LoadBytes(b)
	if err != nil { // whose text may have a value in it
		return nil, fmt.Errorf("%s is no properties file", file)
	}
	c, err := Parse(p.Map())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// Parse takes properties. It touches no file; an error is of the type tlsconf.KeyError.
func Parse(props map[string]string) (*Client, error) {
	c := &Client{id: strings.TrimSpace(props[clientIDKey])}
	for _, key := range plugins {
		if strings.TrimSpace(props[key]) != "" {
			return nil, blame(key, errors.New("there are no plugins"))
		}
	}
	look := func(key string) (value, name string, given bool) {
		if v, ok := props[key]; ok && !slices.Contains(ofServers, key) {
			return v, key, true
		}
		return defaultOf(key), key, false
	}
	if err := c.setTimeout(look); err != nil {
		return nil, err
	}
	tls, sasl, err := protocolOf(look)
	if err != nil {
		return nil, err
	}
	if tls {
		if c.tls, err = tlsconf.ParseClient(look); err != nil {
			return nil, err
		}
		c.Notes = append(c.Notes, c.tls.Notes...)
	}
	if sasl {
		if err := c.setLogin(look); err != nil {
			return nil, err
		}
	}
	c.note(props, tls, sasl)
	return c, nil
}

func blame(key string, err error) error { return &tlsconf.KeyError{Key: key, Err: err} }

func defaultOf(key string) string {
	if v, ok := own[key]; ok {
		return v
	}
	for _, k := range login.Keys {
		if k.Name == key {
			return k.Default
		}
	}
	return tlsconf.DefaultOf(key)
}

func text(look tlsconf.Lookup, key string) string {
	v, _, _ := look(key)
	return strings.TrimSpace(v)
}

func (c *Client) setTimeout(look tlsconf.Lookup) error {
	ms, err := strconv.ParseInt(text(look, setupKey), 10, 32)
	if err != nil || ms < 1 {
		return blame(setupKey, errors.New("is no number of milliseconds"))
	}
	c.timeout = time.Duration(ms) * time.Millisecond
	return nil
}

func protocolOf(look tlsconf.Lookup) (tls, sasl bool, err error) {
	switch p := strings.ToUpper(text(look, protocolKey)); p {
	case "PLAINTEXT":
	case "SSL":
		tls = true
	case "SASL_PLAINTEXT":
		sasl = true
	case "SASL_SSL":
		tls, sasl = true, true
	default:
		err = blame(protocolKey, fmt.Errorf("%q is not PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", p))
	}
	return tls, sasl, err
}

func (c *Client) setLogin(look tlsconf.Lookup) (err error) {
	mechanism := text(look, mechanismKey)
	if mechanism == "" {
		return blame(mechanismKey, errors.New("is needed: Kafka's default is GSSAPI, which is not here"))
	}
	var module jaas.Entry
	if line := text(look, jaasKey); line != "" {
		if module, err = jaas.Parse(line); err != nil {
			return blame(jaasKey, err)
		}
	}
	if c.login, err = login.Parse(mechanism, module, look); err != nil {
		return err
	}
	c.Notes = append(c.Notes, c.login.Notes...)
	return nil
}

// note tells which keys are not used, by their names.
func (c *Client) note(props map[string]string, tls, sasl bool) {
	used := map[string]bool{"bootstrap.servers": true} // whose place is the command line
	for key := range own {
		used[key] = true
	}
	for _, k := range tlsconf.Keys {
		used[k.Name] = tls && !slices.Contains(ofServers, k.Name)
	}
	for _, k := range login.Keys {
		used[k.Name] = sasl
	}
	used[mechanismKey], used[jaasKey] = sasl, sasl
	var unused []string
	for _, key := range slices.Sorted(maps.Keys(props)) {
		if !used[key] && !slices.Contains(plugins, key) {
			unused = append(unused, key)
		}
	}
	if len(unused) > 0 {
		c.Notes = append(c.Notes, "not used: "+strings.Join(unused, ", "))
	}
}

// Options reads the files that are named, and gives the options for a client. Keys and
// certificates are those of now; tokens are fetched when they are needed.
func (c *Client) Options() ([]kgo.Opt, error) {
	dial, err := c.dialer()
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{kgo.Dialer(dial)}
	if c.login != nil {
		opts = append(opts, kgo.SASL(login.New(c.login, slog.New(slog.DiscardHandler))))
	}
	if c.id != "" {
		opts = append(opts, kgo.ClientID(c.id))
	}
	return opts, nil
}

func (c *Client) dialer() (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	d := net.Dialer{Timeout: c.timeout}
	if c.tls == nil {
		return d.DialContext, nil
	}
	st, err := tlsconf.Open(c.tls, false)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			nc.Close()
			return nil, err
		}
		return st.Client(ctx, nc, host)
	}, nil
}
