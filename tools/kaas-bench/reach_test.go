package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReach is about the file that says how to reach the server.
func TestReach(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client.properties")
	for _, tc := range []struct{ text, fails string }{
		{"client.id=me", ""},
		{"security.protocol=TLS", "--command-config: " + file + ": security.protocol: "},
		{"security.protocol=SSL\nssl.truststore.location=/no/such\nssl.truststore.type=PEM", "--command-config: " + file + ": ssl.truststore.location: /no/such: "},
	} {
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		tg := target{Bootstrap: "localhost:1", Command: file}
		cl, err := tg.client()
		if err == nil {
			cl.Close()
		}
		if (err == nil) != (tc.fails == "") || err != nil && !strings.HasPrefix(err.Error(), tc.fails) {
			t.Errorf("%q: %v", tc.text, err)
		}
	}
}
