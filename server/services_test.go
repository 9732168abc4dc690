package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kaas.dev/kaas/projections"
)

// fakeAPI is an API of Kubernetes that has one thing to say, and KUBECONFIG names it.
func fakeAPI(t *testing.T) (answer *atomic.Pointer[string]) {
	t.Helper()
	answer = &atomic.Pointer[string]{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, *answer.Load()) // who asks has gone if it fails
	}))
	t.Cleanup(api.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"x","context":{"cluster":"c","namespace":"ns"}}],"current-context":"x"}`, api.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	return answer
}

// A broker that is reached through a load balancer lives, is not ready and says why until it
// knows its address, and then tells it to those who come by that listener.
func TestStartWaitsForItsAddress(t *testing.T) {
	answer := fakeAPI(t)
	service := `{"apiVersion":"v1","kind":"Service","spec":{"type":"LoadBalancer"},"status":{"loadBalancer":%s}}`
	none, some := fmt.Sprintf(service, `{}`), fmt.Sprintf(service, `{"ingress":[{"hostname":"lb-1.example"}]}`)
	answer.Store(&none)
	cfg := testConfig(t, t.TempDir(), twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
		"advertised.listeners=INSIDE://in.example:31090+2", "advertised.services=OUTSIDE://kaas-external-1:9094")
	n := &Node{cfg: cfg, log: testLog(t), metrics: newMetrics()}
	if err := n.bind(); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { opened <- n.open(ctx) }() // ends with ctx at the latest
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + n.HTTPAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		line, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(line)
	}
	awaitTrue(t, "/readyz says what the start waits for", func() bool {
		code, line := get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(line, "service kaas-external-1: its load balancer has no address yet")
	})
	if code, _ := get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
	answer.Store(&some)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Stop(context.Background()) }()
	b, ok := n.broker.View().Broker(0)
	want := []projections.Listener{{Name: "INSIDE", Host: "in.example", Port: 31092}, {Name: "OUTSIDE", Host: "lb-1.example", Port: 9094}}
	if !ok || fmt.Sprint(b.Listeners) != fmt.Sprint(want) {
		t.Errorf("the cluster is told %v, want %v", b.Listeners, want)
	}
	if at := n.advertised("here"); fmt.Sprint(at) != fmt.Sprint(want) {
		t.Errorf("told %v, want %v", at, want)
	}
}

func awaitTrue(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("not: " + what)
		}
	}
}

func TestAdvertisedPorts(t *testing.T) {
	for _, tc := range []struct{ advertised, want, fault string }{
		{"PLAINTEXT://h:31090+2", "h:31092", ""},
		{"PLAINTEXT://[2001:db8::1]:31090+0", "[2001:db8::1]:31090", ""},
		{"PLAINTEXT://2001:db8::1:31090", "[2001:db8::1]:31090", ""}, // as in Kafka
		{"PLAINTEXT://h:65535+0", "h:65535", ""},
		{"PLAINTEXT://h:65535+1", "", "not a number from 0 to 65535"},
		{"PLAINTEXT://h:1+99999999999", "", "not a number from 0 to 65535"},
		{"PLAINTEXT://h:1+", "", "not a number from 0 to 65535"},
		{"PLAINTEXT://h:+1", "", "not a number from 0 to 65535"},
		{"PLAINTEXT://h:1+2+3", "", "not a number from 0 to 65535"},
		{"PLAINTEXT://a:b:9092", "", "is not NAME://HOST:PORT"},
		{"PLAINTEXT://h", "", "is not NAME://HOST:PORT"},
	} {
		c, err := LoadConfig(Sources{Sets: []string{"advertised.listeners=" + tc.advertised}})
		switch {
		case tc.fault != "":
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s: %v, want %q", tc.advertised, err, tc.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", tc.advertised, err)
		case c.Advertised[0].address() != tc.want:
			t.Errorf("%s: %s, want %s", tc.advertised, c.Advertised[0].address(), tc.want)
		}
	}
}

func TestAdvertisedServicesAreJudged(t *testing.T) {
	for _, tc := range []struct{ sets, fault string }{
		{"advertised.services=OTHER://s:1", "config advertised.services (from --set): listeners has none that is called OTHER"},
		{"advertised.services=PLAINTEXT://s:1,advertised.listeners=PLAINTEXT://h:1", "config advertised.services (from --set): advertised.listeners has PLAINTEXT, too"},
		{"advertised.services=PLAINTEXT://:1", "names no host"},
		{"advertised.services=PLAINTEXT://s", "is not NAME://HOST:PORT"},
	} {
		if _, err := LoadConfig(Sources{Sets: strings.Split(tc.sets, ",")}); err == nil || !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %v", tc.sets, err)
		}
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := Open(t.Context(), testConfig(t, t.TempDir(), "advertised.services=PLAINTEXT://s:1"), testLog(t))
	if err == nil || !strings.Contains(err.Error(), "config advertised.services (from --set): no Kubernetes here") {
		t.Error(err)
	}
}
