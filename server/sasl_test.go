package server

import (
	"context"
	"crypto/pbkdf2"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	franzsasl "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	franzscram "github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/xdg-go/scram"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/auth"
	"kaas.dev/kaas/server/auth/sasl"
)

// saslSets are settings of a broker whose clients use PLAIN and SCRAM, and that uses PLAIN
// with others.
func saslSets(more ...string) []string {
	return append([]string{"listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=PLAIN",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=" + plainJAAS}, more...)
}

// users is a cluster of users, in which nothing else is.
type users struct {
	Backend
	view *projections.Cluster
}

func (u users) View() *projections.Cluster { return u.view }

// withUser is a view in which there is a user.
func withUser(t testing.TB, view *projections.Cluster, name, password string, m projections.ScramMechanism) *projections.Cluster {
	t.Helper()
	c, err := sasl.NewCredential(name, m, password, 4096)
	if err != nil {
		t.Fatal(err)
	}
	evs, err := projections.NewEvents(c)
	if err != nil {
		t.Fatal(err)
	}
	if view, err = projections.Apply(view, evs); err != nil {
		t.Fatal(err)
	}
	return view
}

// saslServer is a server of users alone, within a test of synctest.
func saslServer(t *testing.T, more ...string) *Server {
	view := withUser(t, projections.NewCluster(), "bob", "bob-secret", projections.ScramSHA256)
	s := Start(testConfig(t, "unused", saslSets(more...)...), "cluster", users{view: view}, nil, newMetrics(), testLog(t))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
	})
	return s
}

func (s *Server) pipe(t *testing.T) *client { return s.pipeTo(t, 0) }

func (s *Server) pipeTo(t *testing.T, listener int) *client {
	mine, theirs := net.Pipe()
	s.take(listener, theirs)
	t.Cleanup(func() { mine.Close() })
	return &client{t: t, nc: mine}
}

func (c *client) handshake(mechanism string) *kmsg.SASLHandshakeResponse {
	c.t.Helper()
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, mechanism
	return c.ask(req).(*kmsg.SASLHandshakeResponse)
}

func (c *client) authenticate(token string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, []byte(token)
	return c.ask(req).(*kmsg.SASLAuthenticateResponse)
}

// login authenticates with PLAIN.
func (c *client) login(user, password string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	if code := c.handshake(sasl.Plain).ErrorCode; code != 0 {
		c.t.Fatalf("handshake: error %d", code)
	}
	return c.authenticate("\x00" + user + "\x00" + password)
}

// ended fails unless the broker closes the connection, with nothing more on it.
func (c *client) ended() {
	c.t.Helper()
	if n, err := c.nc.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		c.t.Errorf("%d bytes, %v, want the end", n, err)
	}
}

// S-01: whoever cannot prove what he claims is told 58, after a while, and gets nothing
// further, whatever he sends.
func TestWrongCredentials(t *testing.T) {
	for name, tc := range map[string]struct{ mechanism, token, told string }{
		"wrong password":    {sasl.Plain, "\x00alice\x00wrong", "Invalid username or password"},
		"of another":        {sasl.Plain, "\x00alice\x00kaas-secret", "Invalid username or password"},
		"unknown user":      {sasl.Plain, "\x00mallory\x00x", "Invalid username or password"},
		"empty user":        {sasl.Plain, "\x00\x00x", "username not specified"},
		"empty password":    {sasl.Plain, "\x00alice\x00", "password not specified"},
		"unknown and empty": {sasl.Plain, "\x00mallory\x00", "password not specified"},
		"nothing":           {sasl.Plain, "", "expected 3 tokens, got 1"},
		"no parts":          {sasl.Plain, "alice-secret", "expected 3 tokens, got 1"},
		"four parts":        {sasl.Plain, "\x00alice\x00alice-secret\x00", "expected 3 tokens, got 4"},
		"as another":        {sasl.Plain, "kaas\x00alice\x00alice-secret", "different from username"},
		"malformed":         {sasl.ScramSHA256, "n,,n=bob", "invalid credentials with SASL mechanism SCRAM-SHA-256"},
		"nobody":            {sasl.ScramSHA256, "n,,n=,r=abc", "invalid credentials with SASL mechanism SCRAM-SHA-256"},
		"scram as another":  {sasl.ScramSHA256, "n,a=kaas,n=bob,r=abc", "different from username"},
		"by token":          {sasl.ScramSHA256, "n,,n=bob,r=abc,tokenauth=true", "invalid credentials with SASL mechanism SCRAM-SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := saslServer(t).pipe(t)
				if h := c.handshake(tc.mechanism); h.ErrorCode != 0 {
					t.Fatalf("handshake: error %d", h.ErrorCode)
				}
				began := time.Now()
				got := c.authenticate(tc.token)
				if got.ErrorCode != 58 || !strings.Contains(*got.ErrorMessage, tc.told) || strings.Contains(*got.ErrorMessage, "secret") || got.SessionLifetimeMillis != 0 {
					t.Errorf("told %d %q, want 58 and %q", got.ErrorCode, *got.ErrorMessage, tc.told)
				}
				if d := time.Since(began); d != 100*time.Millisecond {
					t.Errorf("told after %v", d)
				}
				c.ended()
			})
		})
	}
}

// S-01: a client of SCRAM whose proof is wrong, and that goes on as if it were right, has its
// connection closed. An unknown user is met in the same way up to there.
func TestWrongProofThenOn(t *testing.T) {
	for _, user := range []string{"bob", "mallory"} {
		synctest.Test(t, func(t *testing.T) {
			c := saslServer(t).pipe(t)
			c.handshake(sasl.ScramSHA256)
			cl, err := scram.SHA256.NewClient(user, "wrong", "")
			if err != nil {
				t.Fatal(err)
			}
			conv := cl.NewConversation()
			first, _ := conv.Step("")
			challenge := c.authenticate(first)
			if challenge.ErrorCode != 0 || !strings.Contains(string(challenge.SASLAuthBytes), ",i=4096") {
				t.Fatalf("%s: %d %s", user, challenge.ErrorCode, challenge.SASLAuthBytes)
			}
			final, err := conv.Step(string(challenge.SASLAuthBytes))
			if err != nil {
				t.Fatal(err)
			}
			req := kmsg.NewPtrSASLAuthenticateRequest()
			req.Version, req.SASLAuthBytes = 2, []byte(final)
			c.send(req)
			go func() { // whether or not anybody reads it
				_, _ = c.nc.Write(frame(kmsg.NewPtrMetadataRequest(), 99))
			}()
			resp := kmsg.NewPtrSASLAuthenticateResponse()
			resp.Version = 2
			_, b := c.receive()
			c.decode(resp, b)
			if resp.ErrorCode != 58 || len(resp.SASLAuthBytes) != 0 {
				t.Errorf("%s: told %d %s", user, resp.ErrorCode, resp.SASLAuthBytes)
			}
			c.ended()
		})
	}
}

// S-01: before it has authenticated a client gets an answer to nothing but what it needs for
// that, and has no time without end.
func TestUnauthenticated(t *testing.T) {
	s := Start(testConfig(t, "unused", saslSets()...), "cluster", users{view: projections.NewCluster()}, nil, newMetrics(), testLog(t))
	defer func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
	}()
	steps := map[string]func(*client){
		"at once":           func(*client) {},
		"after ApiVersions": func(c *client) { c.ask(kmsg.NewPtrApiVersionsRequest()) },
		"after handshake":   func(c *client) { c.handshake(sasl.Plain) },
		"in SCRAM": func(c *client) {
			c.handshake(sasl.ScramSHA512)
			c.authenticate("n,,n=bob,r=abc")
		},
	}
	for when, first := range steps {
		for i := range apis {
			a := &apis[i]
			if a.key == kmsg.ApiVersions || a.key == kmsg.SASLHandshake || a.key == kmsg.SASLAuthenticate && when != "at once" && when != "after ApiVersions" {
				continue
			}
			for v := max(a.min, a.works); v <= a.max; v++ {
				c := s.pipe(t)
				_ = c.nc.SetDeadline(time.Now().Add(30 * time.Second))
				first(c)
				req := kmsg.RequestForKey(int16(a.key))
				req.SetVersion(v)
				go func() { _, _ = c.nc.Write(frame(req, 7)) }()
				if n, err := c.nc.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
					t.Fatalf("%s, %s version %d: %d bytes, %v", when, kmsg.NameForKey(int16(a.key)), v, n, err)
				}
			}
		}
	}
}

func TestAuthenticationTakesNoLongerThan(t *testing.T) {
	for _, sent := range [][]byte{nil, {0}, frame(&kmsg.SASLHandshakeRequest{Version: 1, Mechanism: "PLAIN"}, 1)} {
		synctest.Test(t, func(t *testing.T) {
			c := saslServer(t).pipe(t)
			began := time.Now()
			go func() { _, _ = c.nc.Write(sent) }()
			_, _ = io.Copy(io.Discard, c.nc)
			if d := time.Since(began); d != authTimeout {
				t.Errorf("after %d bytes closed after %v", len(sent), d)
			}
		})
	}
}

// What is out of order is told so.
func TestSASLOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := saslServer(t)
		c := s.pipe(t)
		if h := c.handshake("GSSAPI"); h.ErrorCode != 33 || strings.Join(h.SupportedMechanisms, " ") != "PLAIN SCRAM-SHA-256 SCRAM-SHA-512" {
			t.Errorf("an unknown mechanism: %d, %v", h.ErrorCode, h.SupportedMechanisms)
		}
		c.ended()

		c = s.pipe(t)
		c.handshake(sasl.Plain)
		if h := c.handshake(sasl.Plain); h.ErrorCode != 34 {
			t.Errorf("a handshake within an exchange: %d", h.ErrorCode)
		}
		c.ended()

		c = s.pipe(t)
		c.handshake(sasl.Plain)
		if v := c.ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse); v.ErrorCode != 34 {
			t.Errorf("ApiVersions within an exchange: %d", v.ErrorCode)
		}
		c.ended()

		c = s.pipe(t)
		c.ask(kmsg.NewPtrApiVersionsRequest())
		go func() { _, _ = c.nc.Write(frame(kmsg.NewPtrApiVersionsRequest(), 2)) }()
		c.ended()

		// One that was too new may be followed by another.
		c = s.pipe(t)
		raw := frame(kmsg.NewPtrApiVersionsRequest(), 1)
		raw[7] = 99
		go func() { _, _ = c.nc.Write(raw) }()
		c.receive()
		c.ask(kmsg.NewPtrApiVersionsRequest())
		if a := c.login("alice", "alice-secret"); a.ErrorCode != 0 || a.SessionLifetimeMillis != 0 {
			t.Errorf("%d %v", a.ErrorCode, a.ErrorMessage)
		}
		// Authenticated for ever there is no reason to do it again.
		if h := c.handshake(sasl.Plain); h.ErrorCode != 34 {
			t.Errorf("handshake afterwards: %d", h.ErrorCode)
		}
		if a := c.authenticate("x"); a.ErrorCode != 34 {
			t.Errorf("token afterwards: %d", a.ErrorCode)
		}
		c.ask(kmsg.NewPtrApiVersionsRequest())
	})
}

// A request before authentication is bounded, whatever it claims.
func TestUnauthenticatedSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := saslServer(t, "sasl.server.max.receive.size=1000")
		c := s.pipe(t)
		c.handshake(sasl.Plain)
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = 2, make([]byte, 1000)
		go func() { _, _ = c.nc.Write(frame(req, 2)) }()
		c.ended()

		c = s.pipe(t)
		if a := c.login("alice", "alice-secret"); a.ErrorCode != 0 {
			t.Fatalf("error %d", a.ErrorCode)
		}
		meta := kmsg.NewPtrSASLAuthenticateRequest()
		meta.Version, meta.SASLAuthBytes = 2, make([]byte, 5000)
		if a := c.ask(meta).(*kmsg.SASLAuthenticateResponse); a.ErrorCode != 34 {
			t.Errorf("afterwards: %d", a.ErrorCode)
		}
	})
}

// After a handshake of version 0 messages come bare, and so do the answers.
func TestBareTokens(t *testing.T) {
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = sasl.Plain
	token := func(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }
	synctest.Test(t, func(t *testing.T) {
		s := saslServer(t)
		c := s.pipe(t)
		c.ask(handshake)
		if _, err := c.nc.Write(token("\x00alice\x00alice-secret")); err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(c.nc, make([]byte, 4)); err != nil {
			t.Fatal(n, err)
		}
		c.ask(kmsg.NewPtrApiVersionsRequest())

		for _, wrong := range [][]byte{token("\x00alice\x00x"), {0xff, 0xff, 0xff, 0xff}, {0x7f, 0, 0, 0}} {
			c = s.pipe(t)
			c.ask(handshake)
			go func() { _, _ = c.nc.Write(wrong) }()
			c.ended()
		}

		c = s.pipe(t)
		h := *handshake
		h.Mechanism = sasl.ScramSHA256
		c.ask(&h)
		cl, _ := scram.SHA256.NewClient("bob", "bob-secret", "")
		conv := cl.NewConversation()
		for in := ""; !conv.Done(); {
			out, err := conv.Step(in)
			if err != nil {
				t.Fatal(err)
			}
			if conv.Done() {
				break
			}
			if _, err := c.nc.Write(token(out)); err != nil {
				t.Fatal(err)
			}
			var size [4]byte
			if _, err := io.ReadFull(c.nc, size[:]); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, binary.BigEndian.Uint32(size[:]))
			if _, err := io.ReadFull(c.nc, b); err != nil {
				t.Fatal(err)
			}
			in = string(b)
		}
		if !conv.Valid() {
			t.Error("the broker has not proved itself")
		}
		c.ask(kmsg.NewPtrApiVersionsRequest())
	})
}

// KIP-368: an authentication that expires is to be done again, by the same user with the same
// mechanism, and not all the time; else the connection ends with the next request.
func TestReauthentication(t *testing.T) {
	begin := func(t *testing.T) *client {
		s := saslServer(t, "connections.max.reauth.ms=10000", "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms=5000")
		c := s.pipe(t)
		if a := c.login("alice", "alice-secret"); a.ErrorCode != 0 || a.SessionLifetimeMillis != 10_000 {
			t.Fatalf("%d, good for %d ms", a.ErrorCode, a.SessionLifetimeMillis)
		}
		return c
	}
	for name, f := range map[string]func(*testing.T, *client){
		"again and again": func(t *testing.T, c *client) {
			for range 4 {
				time.Sleep(9 * time.Second)
				if a := c.login("alice", "alice-secret"); a.ErrorCode != 0 || a.SessionLifetimeMillis != 10_000 {
					t.Fatalf("%d, good for %d ms", a.ErrorCode, a.SessionLifetimeMillis)
				}
				c.ask(kmsg.NewPtrApiVersionsRequest())
			}
		},
		"too late for others": func(t *testing.T, c *client) {
			time.Sleep(11 * time.Second)
			go func() { _, _ = c.nc.Write(frame(kmsg.NewPtrApiVersionsRequest(), 9)) }()
			c.ended()
		},
		"late but not too late": func(t *testing.T, c *client) {
			time.Sleep(11 * time.Second)
			if a := c.login("alice", "alice-secret"); a.ErrorCode != 0 {
				t.Fatalf("error %d", a.ErrorCode)
			}
		},
		"as another": func(t *testing.T, c *client) {
			if a := c.login("kaas", "kaas-secret"); a.ErrorCode != 58 || !strings.Contains(*a.ErrorMessage, "Cannot change principals during re-authentication from User.alice: User.kaas") {
				t.Errorf("%d %v", a.ErrorCode, *a.ErrorMessage)
			}
			c.ended()
		},
		"wrong password": func(t *testing.T, c *client) {
			if a := c.login("alice", "wrong"); a.ErrorCode != 58 {
				t.Errorf("error %d", a.ErrorCode)
			}
			c.ended()
		},
		"another mechanism": func(t *testing.T, c *client) {
			if h := c.handshake(sasl.ScramSHA256); h.ErrorCode != 0 {
				t.Errorf("error %d", h.ErrorCode)
			}
			if a := c.authenticate("n,,n=bob,r=abc"); a.ErrorCode != 58 || !strings.Contains(*a.ErrorMessage, "not supported for re-authentication") {
				t.Errorf("%d %v", a.ErrorCode, *a.ErrorMessage)
			}
			c.ended()
		},
		"twice in a second": func(t *testing.T, c *client) {
			if a := c.login("alice", "alice-secret"); a.ErrorCode != 0 {
				t.Fatalf("error %d", a.ErrorCode)
			}
			if h := c.handshake(sasl.Plain); h.ErrorCode != 34 {
				t.Errorf("error %d", h.ErrorCode)
			}
			time.Sleep(time.Second)
			if a := c.login("alice", "alice-secret"); a.ErrorCode != 0 {
				t.Fatalf("error %d", a.ErrorCode)
			}
		},
		"something else within": func(t *testing.T, c *client) {
			c.handshake(sasl.Plain)
			go func() { _, _ = c.nc.Write(frame(kmsg.NewPtrMetadataRequest(), 9)) }()
			c.ended()
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, begin(t)) }) })
	}
}

// A request is of who was on the connection when it came.
func TestPrincipalOfARequest(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	var who []auth.Principal
	apis = before(api{key: kmsg.ListGroups, max: 5, start: func(_ *Server, _ context.Context, r *request) (reply, error) {
		who = append(who, r.principal)
		return now(kmsg.NewPtrListGroupsResponse())
	}})
	synctest.Test(t, func(t *testing.T) {
		c := saslServer(t).pipe(t)
		c.login("alice", "alice-secret")
		c.ask(kmsg.NewPtrListGroupsRequest())
	})
	if len(who) != 1 || who[0] != auth.User("alice") {
		t.Errorf("the request was of %v", who)
	}
}

// Clients of franz-go with each mechanism, on a whole broker, that has the users from requests.
func TestFranzGoWithSASL(t *testing.T) {
	n := served(t, startNode(t, t.TempDir(), saslSets()...))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client := func(m franzsasl.Mechanism) *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.SASL(m), kgo.AllowAutoTopicCreation(), kgo.RequestRetries(2), kgo.UnknownTopicRetries(10))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	admin := client(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism())
	setPassword(t, admin, "bob", "bob-secret")
	b := franzscram.Auth{User: "bob", Pass: "bob-secret"}
	for name, m := range map[string]franzsasl.Mechanism{"plain": plain.Auth{User: "kaas", Pass: "kaas-secret"}.AsMechanism(), "256": b.AsSha256Mechanism(), "512": b.AsSha512Mechanism()} {
		if err := client(m).ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(name)}).FirstErr(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, m := range map[string]franzsasl.Mechanism{"plain": plain.Auth{User: "kaas", Pass: "x"}.AsMechanism(), "256": franzscram.Auth{User: "bob", Pass: "x"}.AsSha256Mechanism(),
		"512": franzscram.Auth{User: "eve", Pass: "x"}.AsSha512Mechanism()} {
		if err := client(m).Ping(ctx); err == nil || !strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") {
			t.Errorf("wrong %s: %v", name, err)
		}
	}
	metrics := scrape(n)
	for _, want := range []string{"successful", "failed"} {
		for _, m := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
			line := fmt.Sprintf(`kafka_server_socket_server_metrics_%s_authentication_total{listener="SASL_PLAINTEXT",mechanism="%s"}`, want, m)
			if !strings.Contains(metrics, line) {
				t.Errorf("the metrics lack %s", line)
			}
		}
	}
}

// setPassword sets a user's password for both mechanisms.
func setPassword(t testing.TB, cl *kgo.Client, user, password string) {
	t.Helper()
	for m, hash := range map[int8]scram.HashGeneratorFcn{1: scram.SHA256, 2: scram.SHA512} {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt = user, m, 4096, []byte("some salt")
		u.SaltedPassword = saltedPassword(hash, password, u.Salt, 4096)
		req.Upsertions = append(req.Upsertions, u)
		resp, err := req.RequestWith(context.Background(), cl)
		if err != nil || resp.Results[0].ErrorCode != 0 {
			t.Fatalf("password of %s: %v, %+v", user, err, resp)
		}
	}
}

func saltedPassword(hash scram.HashGeneratorFcn, password string, salt []byte, iterations int) []byte {
	key, err := pbkdf2.Key(hash, password, salt, iterations, hash().Size())
	if err != nil {
		panic(err)
	}
	return key
}
