package kafka

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/magiconair/properties"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/hostfile"
	"kaas.dev/kaas/server/auth/jaas"
	"kaas.dev/kaas/server/clientprops"
)

// Config is how to reach a cluster: what the command line says, and a file that may change.
type Config struct {
	bootstrap string
	file      string // empty: there is none
}

// NewConfig takes brokers to begin with, with commas between them, and a file of properties.
// Either may be empty, but one of them has to name a broker.
func NewConfig(bootstrap, file string) *Config { return &Config{bootstrap, file} }

// setup is what a configuration says at one time.
type setup struct {
	seeds []string
	user  string // as whom the operator logs in, if that is known
	opts  []kgo.Opt
	notes []string
	sum   [sha256.Size]byte // of all files
}

// fileMax is more than any of the files has.
const fileMax = 1 << 20

// read reads the files as they are now. No error has a value of the properties: it may be a
// password.
func (c *Config) read() (*setup, error) {
	s := &setup{seeds: items(c.bootstrap)}
	if c.file != "" {
		if err := s.take(c.file); err != nil {
			return nil, err
		}
	}
	if len(s.seeds) == 0 {
		return nil, errors.New("no brokers: give bootstrap servers")
	}
	for _, addr := range s.seeds {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("bootstrap server %q is not HOST:PORT", addr)
		}
	}
	return s, nil
}

func (s *setup) take(file string) error {
	sum, p, err := look(file)
	if err != nil {
		return err
	}
	props, err := clientprops.Parse(p.Map())
	if err == nil {
		s.opts, err = props.Options()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(s.seeds) == 0 {
		s.seeds = items(p.GetString("bootstrap.servers", ""))
	}
	if e, err := jaas.Parse(p.GetString("sasl.jaas.config", "")); err == nil {
		s.user = e.Options["username"]
	}
	s.notes, s.sum = props.Notes, sum
	return nil
}

// look reads the properties, and what all files hold that they name.
func look(file string) (sum [sha256.Size]byte, p *properties.Properties, err error) {
	b, err := hostfile.Read(file, fileMax)
	if err != nil {
		return sum, nil, err
	}
	l := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	if p, err = l.LoadBytes(b); err != nil { // whose text may have a value in it
		return sum, nil, fmt.Errorf("%s is no properties file", file)
	}
	h := sha256.New()
	h.Write(b)
	for _, key := range p.Keys() {
		if !strings.HasSuffix(key, ".location") {
			continue
		}
		b, err := hostfile.Read(p.GetString(key, ""), fileMax)
		if err != nil {
			return sum, nil, fmt.Errorf("%s: %w", key, err)
		}
		fmt.Fprintf(h, "%d:", len(b))
		h.Write(b)
	}
	return [sha256.Size]byte(h.Sum(nil)), p, nil
}

func items(list string) (out []string) {
	for s := range strings.SplitSeq(list, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// lookEvery is how often the files are looked at: what Kubernetes mounts is replaced at its
// own time.
const lookEvery = 10 * time.Second

// Watch takes what changes in the files, until ctx ends.
func (c *Cluster) Watch(ctx context.Context) {
	if c.conf.file == "" {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	complaint := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch err := c.refresh(); {
		case err == nil:
			complaint = ""
		case err.Error() != complaint:
			complaint = err.Error()
			c.log.Error("the client's files are not taken: what was read before stays in use", "err", err)
		}
	}
}

// refresh connects anew if the files hold something else.
func (c *Cluster) refresh() error {
	old := c.now.Load()
	if sum, _, err := look(c.conf.file); err != nil || sum == old.setup.sum {
		return err
	}
	next, err := c.conf.connect()
	if err != nil {
		return err
	}
	c.now.Store(next)
	old.cl.Close() // what is under way fails, and is tried again
	c.log.Info("the client's files have changed, and are in use", "file", c.conf.file)
	return nil
}

func (s *setup) tell(log *slog.Logger, file string) {
	for _, note := range s.notes {
		log.Warn("client configuration", "file", file, "note", note)
	}
}
