package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server"
	"kaas.dev/kaas/tools/kaas-meta/history"
	"kaas.dev/kaas/tools/kaas-meta/restore"
)

// runWith is run with something on standard input.
func runWith(in string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := rootCommand(&out)
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(in))
	err := cmd.Execute()
	return out.String(), err
}

// The first administrator is there before the first broker, which then lets that one in alone.
// What is changed while the broker runs it takes up.
func TestFirstAdministrator(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	out, err := runWith("first-secret\n", "--dir", dir, "user", "add", "alice", "--cluster-id", "mine")
	if err != nil || !strings.Contains(out, "new volume, of cluster mine") {
		t.Fatalf("%s: %v", out, err)
	}
	n := startSASLBroker(t, dir)
	ping := func(user, password string) error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), kgo.RequestRetries(0))
		check(t, err)
		defer cl.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return cl.Ping(ctx)
	}
	check(t, ping("alice", "first-secret"))
	for _, wrong := range [][2]string{{"alice", "x"}, {"admin", "admin"}, {"alice", "first-secret\n"}} {
		if err := ping(wrong[0], wrong[1]); err == nil || !strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	_, err = runWith("second-secret", "--dir", dir, "user", "add", "bob", "--mechanism", "scram-sha-256,scram-sha-512", "--iterations", "8192")
	check(t, err)
	_, err = run("--dir", dir, "user", "delete", "alice")
	check(t, err)
	for began := time.Now(); ping("bob", "second-secret") != nil || ping("alice", "first-secret") == nil; {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("the broker has not taken up what was changed beside it")
		}
	}
}

func startSASLBroker(t *testing.T, dir string) *server.Node {
	t.Helper()
	const module = "org.apache.kafka.common.security.scram.ScramLoginModule"
	cfg, err := server.LoadConfig(server.Sources{Sets: []string{"listeners=SASL_PLAINTEXT://127.0.0.1:0", "http.listeners=", "log.dirs=" + dir,
		"offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1", "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
		"sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512", "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=" + module + ` required username="alice" password="first-secret";`}})
	check(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := server.Open(ctx, cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check(t, n.Stop(ctx))
	})
	return n
}

// Users are shown without what proves them, unless that is asked for, and by log, dump, show
// and diff alike; backups say that they hold it.
func TestUsersAreShownWithoutSecrets(t *testing.T) {
	dir := newVolume(t)
	file := filepath.Join(t.TempDir(), "password")
	check(t, os.WriteFile(file, []byte("the-secret\r\nnot this\n"), 0o600))
	for range 2 {
		_, err := run("--dir", dir, "user", "add", "alice", "--password-file", file)
		check(t, err)
	}
	fs, err := substrate.OpenDir(dir)
	check(t, err)
	v, err := substrate.ReadVolume(fs)
	check(t, err)
	c, err := history.ReadCluster(context.Background(), v)
	check(t, err)
	cred := c.ScramCredential("alice", projections.ScramSHA512)
	if cred == nil || c.Topic("orders") == nil {
		t.Fatal("alice is not there, or the topic is gone")
	}
	secrets := []string{"the-secret"}
	for _, s := range [][]byte{cred.Salt, cred.StoredKey, cred.ServerKey} {
		secrets = append(secrets, base64.StdEncoding.EncodeToString(s), base64.RawStdEncoding.EncodeToString(s)[:16], string(s))
	}
	for _, args := range [][]string{
		{"user", "list"}, {"user", "list", "-o", "json"}, {"log", "--user", "alice"}, {"log", "-o", "json"}, {"log", "-o", "yaml"}, {"dump"}, {"dump", "-o", "table"}, {"dump", "-o", "json"},
		{"show", "user", "alice", "--history"}, {"show", "user", "alice", "-o", "json"}, {"diff", "0-1", "latest"},
		{"dump", "-o", "yaml"}, {"show", "user", "alice", "-o", "yaml"}, {"diff", "0-1", "latest", "-o", "json"}, {"diff", "0-1", "latest", "-o", "yaml"},
		{"timeline", "--html", "-"},
	} {
		out, err := run(append([]string{"--dir", dir}, args...)...)
		if err != nil || !strings.Contains(out, "alice") {
			t.Errorf("%v says nothing of alice: %v\n%s", args, err, out)
		}
		for _, s := range secrets {
			if strings.Contains(out, s) {
				t.Errorf("%v shows a secret:\n%s", args, out)
			}
		}
	}
	for _, args := range [][]string{{"log", "-o", "json"}, {"dump", "-o", "yaml"}} {
		out, err := run(append(append([]string{"--dir", dir}, args...), "--show-secrets")...)
		if err != nil || !strings.Contains(out, base64.StdEncoding.EncodeToString(cred.StoredKey)) {
			t.Errorf("%v --show-secrets: %v\n%s", args, err, out)
		}
	}
	backup := filepath.Join(t.TempDir(), "backup")
	out, err := run("--dir", dir, "backup", backup)
	if err != nil || !strings.Contains(out, "it holds secrets (SCRAM credentials)") {
		t.Errorf("backup: %v\n%s", err, out)
	}
	b, err := restore.Read(backup)
	if err != nil || len(b.Secrets()) != 1 {
		t.Errorf("backup: %v, %v", b.Secrets(), err)
	}
}

func TestUserRefusals(t *testing.T) {
	dir, other := newVolume(t), t.TempDir()
	check(t, os.WriteFile(filepath.Join(other, "letter"), []byte("dear"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	for name, tc := range map[string]struct {
		dir, in string
		args    []string
		code    int
	}{
		"no password":       {dir, "", []string{"add", "alice"}, exitFailed},
		"empty line":        {dir, "\nx", []string{"add", "alice"}, exitFailed},
		"no name":           {dir, "x", []string{"add", ""}, exitUsage},
		"no UTF-8":          {dir, "x", []string{"add", "ali\xffce"}, exitUsage},
		"password as word":  {dir, "x", []string{"add", "alice", "secret"}, exitUsage},
		"password as flag":  {dir, "x", []string{"add", "alice", "--password", "secret"}, exitUsage},
		"unknown mechanism": {dir, "x", []string{"add", "alice", "--mechanism", "PLAIN"}, exitUsage},
		"few iterations":    {dir, "x", []string{"add", "alice", "--iterations", "1000"}, exitUsage},
		"other cluster":     {dir, "x", []string{"add", "alice", "--cluster-id", "another"}, exitFailed},
		"no volume":         {other, "x", []string{"add", "alice"}, exitFailed},
		"list of nothing":   {empty, "", []string{"list"}, exitFailed},
		"delete of nothing": {empty, "", []string{"delete", "alice"}, exitFailed},
	} {
		before := listing(t, tc.dir)
		out, err := runWith(tc.in, append([]string{"--dir", tc.dir, "user"}, tc.args...)...)
		if got := exitCode(err); got != tc.code {
			t.Errorf("%s: exit code %d, %v\n%s", name, got, err, out)
		}
		if after := listing(t, tc.dir); before != after {
			t.Errorf("%s changed the directory:\n%s\n%s", name, before, after)
		}
	}
}

// Who is nobody is told so by an entry of the stream, for another host may have added him just
// now; no user is changed.
func TestUserDeleteNobody(t *testing.T) {
	dir := newVolume(t)
	_, err := runWith("x", "--dir", dir, "user", "add", "bob")
	check(t, err)
	before, err := run("--dir", dir, "user", "list")
	check(t, err)
	for range 2 {
		if _, err := run("--dir", dir, "user", "delete", "alice"); exitCode(err) != exitFailed || !strings.Contains(err.Error(), `user "alice" has no such credential`) {
			t.Error(err)
		}
	}
	if after, err := run("--dir", dir, "user", "list"); err != nil || after != before {
		t.Errorf("%v\n%s", err, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	_ = filepath.WalkDir(dir, func(name string, _ os.DirEntry, _ error) error {
		out = append(out, name)
		return nil
	})
	return strings.Join(out, "\n")
}
