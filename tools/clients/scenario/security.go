package scenario

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Brokers are where a client finds them, and how it gets in.
type Brokers struct {
	Addrs []string
	Way   *Way // nil is without security
}

// Way is one of those in the file that secure is given: over TLS, with SASL or a certificate.
type Way struct {
	Name      string   `json:"name"`
	Brokers   []string `json:"brokers"`
	Mechanism string   `json:"mechanism"` // empty with a certificate
	User      string   `json:"user"`
	Password  string   `json:"password"`
	Token     string   `json:"token"` // files, as those below
	CA        string   `json:"ca"`
	Cert      string   `json:"cert"`
	Key       string   `json:"key"`
	Expect    string   `json:"expect"` // empty is to get in, to write and to read
}

// What may be expected besides.
const (
	noAuthentication = "authentication" // is refused
	noAuthorization  = "authorization"
)

// TLS is how to speak it.
func (w *Way) TLS() (*tls.Config, error) {
	ca, err := os.ReadFile(w.CA)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	if !c.RootCAs.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no certificate", w.CA)
	}
	if w.Cert != "" {
		pair, err := tls.LoadX509KeyPair(w.Cert, w.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// TokenText is the token itself.
func (w *Way) TokenText() (string, error) {
	b, err := os.ReadFile(w.Token)
	return strings.TrimSpace(string(b)), err
}

// secure goes every way of a file, one after the other. The first makes the topic, in which
// each has a partition.
func (r *run) secure(file string, open func(Brokers) (*Client, error)) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var ways []*Way
	if err := json.Unmarshal(b, &ways); err != nil {
		return err
	}
	if slices.ContainsFunc(ways, func(w *Way) bool { return len(w.Brokers) == 0 }) || len(ways) == 0 {
		return errors.New("a way has no brokers")
	}
	var c chain
	for i, w := range ways {
		w.Brokers = strings.Split(strings.Join(w.Brokers, ","), ",")
		c.add(w.Name, func() error {
			if i > 0 && r.Code == nil {
				return errors.New("the first has made no topic")
			}
			cl, err := open(Brokers{w.Brokers, w})
			if w.Expect == noAuthentication {
				return r.refused(err, 58)
			}
			if err != nil {
				return err
			}
			if i == 0 {
				r.Client = cl
				_, err = r.create("secure-"+cl.Name, len(ways))
			}
			return First(err, r.goes(cl, w, int32(i)))
		})
	}
	r.together(c)
	return nil
}

// goes writes and reads, or sees that it may not.
func (r *run) goes(cl *Client, w *Way, partition int32) error {
	ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
	defer cancel()
	topic := r.topic("secure-" + cl.Name)
	var records []Record
	for i := range 3 {
		records = append(records, Record{Key: []byte(w.Name), Value: []byte(strconv.Itoa(i)), Time: time.Now()})
	}
	err := cl.Produce(ctx, Target{Topic: topic, Partition: partition, Codec: "none", Idempotent: w.Expect == ""}, records)
	if w.Expect == noAuthorization {
		return r.refused(err, 29)
	}
	if err != nil {
		return err
	}
	got, err := cl.Fetch(ctx, topic, partition, len(records), false)
	if err == nil && len(got) != len(records) {
		err = fmt.Errorf("%d records, want %d", len(got), len(records))
	}
	return err
}
